"""Linear rates of gradient tracking with a constant step: strongly convex functions, and Polyak-Lojasiewicz ones.

Three numbers per round, each an expectation: how far the mean x̄ is from the optimum, u = ||X - 1 x̄'||_F^2 and
v = ||Y - 1 ȳ'||_F^2. Next round's are at most A (this round's) + b with a 3 x 3 matrix A >= 0; where its spectral
radius is below 1, they fall linearly to (I - A)^-1 b, a ball whose size is the noise.

Pu and Nedic (Distributed stochastic gradient tracking methods, 2021) have such a matrix for strongly convex functions;
Xin, Khan and Kar (An improved convergence analysis for decentralized online stochastic non-convex optimization, 2021)
show linear convergence to a ball for GT-DSGD under Polyak-Lojasiewicz. The constants here are not theirs: they are
derived for the recursions as this package runs them, proof in docs/linear-rates.md, and allow larger steps for badly
conditioned functions. Units are those of ``Constants``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from dsgt.theory.constants import Constants

Array: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

STRONGLY_CONVEX = ("E|x̄ - x*|^2", "E||X - 1 x̄'||_F^2", "E||Y - 1 ȳ'||_F^2")
POLYAK_LOJASIEWICZ = ("E F(x̄) - F*", "E||X - 1 x̄'||_F^2", "E||Y - 1 ȳ'||_F^2")


@dataclass(frozen=True, eq=False)
class Linear:
    """q(k + 1) <= A q(k) + b for the three quantities q: a bound that falls linearly to a ball."""

    A: Array
    """(3, 3), not negative, of spectral radius below 1."""
    b: Array
    """(3,), zero without noise."""
    start: Array
    """(3,), before the first round."""
    quantities: tuple[str, str, str]
    spread: float
    """The mean over the nodes of |x_i - x*|^2, or of F(x_i) - F*, is at most the first quantity and this times u."""

    @cached_property
    def radius(self) -> float:
        """The spectral radius of A: the factor per round, in the long run."""
        return spectral_radius(self.A)

    @cached_property
    def ball(self) -> Array:
        """(3,), where the bound ends: zero without noise."""
        return np.asarray(np.linalg.solve(np.eye(3) - self.A, self.b), dtype=np.float64)

    def rounds(self, K: int) -> Array:
        """(K + 1, 3): the bounds before the first round and after each of K rounds."""
        if K < 0:
            raise ValueError(f"K is {K}, but a run has at least 0 rounds")
        q = [self.start]
        for _ in range(K):
            q.append(self.A @ q[-1] + self.b)
        return np.stack(q)

    def nodes(self, K: int) -> Array:
        """(K + 1,): bounds on the mean over the nodes of E|x_i - x*|^2, or of E F(x_i) - F*."""
        q = self.rounds(K)
        found: Array = q[:, 0] + self.spread * q[:, 1]
        return found


def strongly_convex(c: Constants, step: float, *, tracker_mixed: bool = False) -> Linear:
    """F strongly convex with c.mu, every f_i smooth, convex or not: E|x̄ - x*|^2 falls linearly to a ball.

    For DSGT; with ``tracker_mixed`` for Aug-DGM, that is GT-DSGD. Needs ``mu`` and ``distance2`` in c.
    """
    if c.distance2 is None:
        raise ValueError("the bound starts at distance2 = |x̄_1 - x*|^2: give it, or use polyak_lojasiewicz")
    _check(c, step, strongly_convex_step(c, tracker_mixed=tracker_mixed))
    A, b = _strongly_convex(c, step, tracker_mixed)
    return Linear(A, b, _start(c, c.distance2, tracker_mixed), STRONGLY_CONVEX, 1 / c.n)


def strongly_convex_step(c: Constants, *, tracker_mixed: bool = False) -> float:
    """The bound holds and is linear below here: at most 2/(mu + L), and no further than the radius is below 1.

    Without growing noise (c.lam = 0) z = (lr L)^2 is the positive root of
    2 r rho^2 (1 + kappa^2) z^2 + 4 r rho^2 (1 + rho^2) z = (1 - rho)^4, kappa = L/mu, r = 1, or rho^2 for Aug-DGM.
    """
    _check_mu(c)
    return _largest(lambda step: _strongly_convex(c, step, tracker_mixed)[0], 2 / (c.eta * (c.mu + c.L)))


def polyak_lojasiewicz(c: Constants, step: float, *, tracker_mixed: bool = False) -> Linear:
    """|grad F|^2 >= 2 mu (F - F*), convex or not, minimisers may be many: E F(x̄) - F* falls linearly to a ball.

    For DSGT; with ``tracker_mixed`` for Aug-DGM, that is GT-DSGD. Needs ``mu`` in c; F is f/n.
    """
    _check(c, step, polyak_lojasiewicz_step(c, tracker_mixed=tracker_mixed))
    A, b = _polyak_lojasiewicz(c, step, tracker_mixed)
    return Linear(A, b, _start(c, c.gap / c.n, tracker_mixed), POLYAK_LOJASIEWICZ, c.L / (2 * c.n))


def polyak_lojasiewicz_step(c: Constants, *, tracker_mixed: bool = False) -> float:
    """As ``strongly_convex_step`` with at most 1/L, and kappa in the place of kappa^2."""
    _check_mu(c)
    return _largest(lambda step: _polyak_lojasiewicz(c, step, tracker_mixed)[0], 1 / (c.eta * c.L))


def spectral_radius(A: Array) -> float:
    return float(np.abs(np.linalg.eigvals(A)).max())


def _strongly_convex(c: Constants, step: float, mixed: bool) -> tuple[Array, Array]:
    first = (1 - step * c.eta * c.mu, step * c.eta * c.L**2 / (c.mu * c.n), step**2 / c.n**2)
    return _system(c, step, first, (c.eta * c.L) ** 2, mixed)


def _polyak_lojasiewicz(c: Constants, step: float, mixed: bool) -> tuple[Array, Array]:
    first = (1 - step * c.eta * c.mu, step * c.eta * c.L**2 / (2 * c.n), step**2 * c.L / (2 * c.n**2))
    return _system(c, step, first, 2 * c.eta**2 * c.L, mixed)


def _system(
    c: Constants, step: float, first: tuple[float, float, float], slope: float, mixed: bool
) -> tuple[Array, Array]:
    """A and b. ``first`` is what the first quantity takes of itself, of u and of the noise; |eta grad F(x̄)|^2 is at
    most ``slope`` times it. The names follow docs/linear-rates.md."""
    n, rho, h = c.n, c.rho, c.eta * c.L
    a, r, apart = step * h, rho**2 if mixed else 1.0, 1 - 1 / n
    keep, pull, noise = first
    moved = h**2 / (1 - rho)  # what |X' - X|^2 adds to v
    A = np.array(
        [
            [keep, pull, 0.0],
            [0.0, rho, step**2 * rho**2 / (1 - rho)],
            [
                r * moved * 2 * n * step**2 * slope,
                r * moved * (2 * (1 + rho) ** 2 + 2 * a**2),
                rho + r * moved * 2 * step**2 * rho**2,
            ],
        ]
    )
    heard = math.sqrt(apart * (1 / n + rho**2 * apart))
    b = np.array([noise, 0.0, r * (a**2 / (n * (1 - rho)) + apart * (1 + 2 * rho) + 2 * a * heard)])
    fresh = np.array([0.0, 0.0, r * apart])  # of the noise that comes with the next gradient
    grows = 2 * (c.n * c.lam) ** 2 * np.array([n * slope, h**2, 0.0])  # the noise is at most sigma^2 + grows @ q
    now, then = A + np.outer(b, grows), np.eye(3) + np.outer(fresh, grows)
    return then @ now, (then @ b + fresh) * c.sigma2


def _start(c: Constants, first: float, mixed: bool) -> Array:
    return np.array([first, c.X1, c.Y1 * (c.rho**2 if mixed else 1.0)])


def _largest(matrix: Any, most: float) -> float:
    """The largest step up to ``most`` with a radius below 1, to 10 digits from below."""
    if spectral_radius(matrix(most)) < 1:
        return most
    low, high = 0.0, most
    for _ in range(200):
        middle = math.sqrt(low * high) if low else high / 16
        low, high = (middle, high) if spectral_radius(matrix(middle)) < 1 else (low, middle)
        if low > high * (1 - 1e-10):
            break
    return low


def _check_mu(c: Constants) -> None:
    if not 0 < c.mu <= c.L:
        raise ValueError(
            f"mu is {c.mu:g} and L is {c.L:g}, but a linear rate needs 0 < mu <= L: give the strong convexity or the "
            "Polyak-Lojasiewicz constant of F, or use theorem_1, which needs neither"
        )


def _check(c: Constants, step: float, largest: float) -> None:
    if not 0 < step <= largest:
        raise ValueError(
            f"the step is {step:g}, but the bound falls linearly for 0 < step <= {largest:.6g} only, with rho = "
            f"{c.rho:.4g} and L/mu = {c.L / c.mu:.4g}; use a smaller one. Runs bear more: see window()"
        )
