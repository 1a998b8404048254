"""Network independence: when the graph stops mattering (section 5.1 of the paper, Assumption A1).

A1 asks eta n L̃ rho^2 / (1 - rho)^3 sum gamma^3 = O(sum gamma^2); the paper prints it without eta (E27). An O() can not
be checked, so it is made a number here: the network term of Theorem 1 over its variance term,

    ratio = (96/9) eta n L̃ rho^2 (1 + sqrt(rho))^2 / (1 - rho)^3 * sum gamma^3 / sum gamma^2.

A1 is called met where ratio <= ``allowed`` (1 unless told): the network then costs no more than the noise does anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dsgt.core import Matrix
from dsgt.theory.bounds import Steps, diminishing, theorem_1
from dsgt.theory.constants import Constants
from dsgt.topologies.matrix import to_dense
from dsgt.topologies.spectrum import is_symmetric


@dataclass(frozen=True)
class Independence:
    """Whether the network matters, for given steps and rounds. Worst case over all smooth problems."""

    met: bool
    ratio: float
    """The network term over the variance term. Without noise both are 0 and so is the ratio."""
    share: float
    """The share of the network and of the initial disagreement in the whole bound."""
    largest_step: float
    """Constant steps up to here meet it, and Theorem 1 too."""
    rounds: float
    """From this K on the step of Corollary 2, which falls like 1/sqrt(K), meets it."""


def network_ratio(c: Constants, steps: Steps, rounds: int) -> float:
    """The network term of Theorem 1 over its variance term; it depends on the noise only through being there."""
    bound = theorem_1(c, steps, rounds)
    return bound.network / bound.variance if bound.variance > 0 else 0.0


def independence(c: Constants, steps: Steps, rounds: int, *, allowed: float = 1.0) -> Independence:
    """Is Assumption A1 met with these steps, which step makes it so, and from which K on."""
    ratio = network_ratio(c, steps, rounds)
    step = independent_step(c, allowed=allowed)
    share = theorem_1(c, steps, rounds).network_share
    K = rounds_with_balanced_step(c, allowed=allowed)
    return Independence(ratio <= allowed, ratio, share, step, K)


def independent_step(c: Constants, *, allowed: float = 1.0) -> float:
    """The largest admissible constant step whose network term is at most ``allowed`` times the variance term."""
    return min(c.largest_step, _balance(c, allowed))


def rounds_with_balanced_step(c: Constants, *, allowed: float = 1.0) -> float:
    """K from which gamma = D / (sqrt(K) L sigma_s) is admissible and has a ratio of at most ``allowed``.

    For allowed = 1 never above the K of Corollary 2, whose constants 11 and 1 + sqrt(rho) are rounded up.
    """
    if c.sigma2 == 0:
        return 0.0
    return c.D**2 / (c.L**2 * c.sigma2 * independent_step(c, allowed=allowed) ** 2)


def rounds_with_diminishing_step(
    c: Constants, a: float, p: float, *, allowed: float = 1.0, limit: int = 10**6
) -> float:
    """K from which gamma_t = a / t^p meets A1; infinity where it has not by ``limit`` rounds.

    For p > 0.5 both sums converge, so a large a may never meet it.
    """
    t = np.arange(1, limit + 1, dtype=np.float64)
    theorem_1(c, diminishing(a, p), 1)  # refuses a step that Theorem 1 does not allow
    ratio = a / _balance(c, 1.0) * np.cumsum(t ** (-3 * p)) / np.cumsum(t ** (-2 * p))
    met = np.flatnonzero(ratio <= allowed)  # ratio falls with K: late steps weigh less in the third powers
    return float(met[0] + 1) if len(met) else math.inf


ALL_EIGENVALUES_UP_TO = 2000
"""Nodes up to which all eigenvalues of W are worth computing."""


def has_typical_ratio(W: Matrix) -> bool:
    """Whether ``typical_ratio`` takes this W: symmetric, and not too large for all its eigenvalues."""
    return W.shape[0] <= ALL_EIGENVALUES_UP_TO and is_symmetric(W)


def typical_ratio(W: Matrix, lr_L: float) -> float:
    """Disagreement over noise, n L^2 E||X - 1x̄'||^2 / E|grad f(x̄)|^2, in the long run: what A1 is about, no worst case.

    Exact for equal quadratics of curvature L with equal noise and symmetric W. With c = lr L, mode w of W filters the
    noise by lr w (1 - 1/z) / (1 - (2 - c) w/z + (w^2 - c w)/z^2), so

        ratio = c (2 - c) sum_{w != 1} 2 w^2 / ((1 - w^2 + c w) ((1 + w)^2 - 2 c w)).

    For small c it grows like c/(1 - rho), where Theorem 1 has c/(1 - rho)^3. Infinite where DSGT is unstable.
    """
    if not has_typical_ratio(W):
        raise ValueError(
            f"typical_ratio needs a symmetric W of at most {ALL_EIGENVALUES_UP_TO} nodes; else use independence(), the "
            "worst case"
        )
    c, w = lr_L, np.linalg.eigvalsh(to_dense(W))[:-1]
    first, second = 1 - w**2 + c * w, (1 + w) ** 2 - 2 * c * w
    if not 0 < c < 2 or (first <= 0).any() or (second <= 0).any():
        return math.inf
    return c * (2 - c) * float((2 * w**2 / (first * second)).sum())


def typical_step(W: Matrix, *, allowed: float = 1.0) -> float:
    """The largest c = lr L up to which the typical ratio is at most ``allowed``, and at most 1 (plain descent)."""
    grid = np.geomspace(1e-9, 1.0, 400)
    above = [c for c in grid if typical_ratio(W, float(c)) > allowed]
    if not above:
        return 1.0
    low, high = float(above[0]) / (grid[1] / grid[0]), float(above[0])
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if typical_ratio(W, middle) <= allowed else (low, middle)
    return float(low)


def typical_rounds(c: Constants, W: Matrix, *, allowed: float = 1.0) -> float:
    """K from which the step D / (sqrt(K) L sigma_s) has a typical ratio of at most ``allowed``; 0 without noise."""
    if c.sigma2 == 0:
        return 0.0
    return (c.D * c.eta / (typical_step(W, allowed=allowed) * math.sqrt(c.sigma2))) ** 2


def _balance(c: Constants, allowed: float) -> float:
    """The constant step at which network term = allowed * variance term; infinite for rho = 0."""
    if c.rho == 0:
        return math.inf
    mixing = c.rho**2 * (1 + math.sqrt(c.rho)) ** 2 / (1 - c.rho) ** 3
    return allowed * 9 / (96 * c.eta * c.n * c.L_tilde * mixing)
