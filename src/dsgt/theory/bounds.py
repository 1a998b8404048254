"""Theorems 1 and 2 and Corollaries 1 and 2 of the paper as functions, term by term, with the errata applied.

All take ``Constants`` (in either units) and steps gamma in the same units: lr in the package's. Round k = 0 of the
package is t = 1 of the paper: X_1 is where the nodes start and gamma_1 = lr(0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dsgt.theory.constants import Constants

Steps: TypeAlias = float | Callable[[int], float]
"""A constant step, or round k = 0, 1, ... -> step."""

THEOREM_1 = "mean over t <= K, weighted with gamma_t, of E|grad f(x̄_t)|^2 + n L^2 E||X_t - 1 x̄_t'||_F^2"
THEOREM_2 = "mean over t <= K, weighted with gamma_t, of E f(x̄_t) - f* + (L/2) E||X_t - 1 x̄_t'||_F^2"


@dataclass(frozen=True)
class Bound:
    """An upper bound, and what it is made of."""

    optimisation: float
    """From where the run starts; falls like 1/sum(gamma)."""
    variance: float
    """From the noise of the gradients; what centralized SGD pays too."""
    network: float
    """From the noise that the network has not averaged yet; zero for rho = 0."""
    initial: float
    """From models and gradients that differ in the first round."""
    quantity: str
    """What is bounded, with f = n F in the package's units."""

    @property
    def total(self) -> float:
        return self.optimisation + self.variance + self.network + self.initial

    @property
    def network_share(self) -> float:
        """How much of the bound is the network's doing: its own term and the initial disagreement."""
        return (self.network + self.initial) / self.total if self.total > 0 else 0.0

    def divided(self, by: float) -> Bound:
        """In other units: by n^2 (Theorem 1) or n (Theorem 2) for the mean loss F in place of f = n F."""
        return Bound(
            self.optimisation / by,
            self.variance / by,
            self.network / by,
            self.initial / by,
            f"1/{by:g} of: {self.quantity}",
        )


def theorem_1(c: Constants, steps: Steps, rounds: int) -> Bound:
    """R(K) of DSGT for any smooth f_i and non-increasing steps up to ``c.largest_step``."""
    s1, s2, s3, gamma1 = _sums(c, steps, rounds)
    return _theorem_1(c, s1, s2, s3, gamma1)


def theorem_2(c: Constants, steps: Steps, rounds: int) -> Bound:
    """R_c(K) of DSGT for convex f_i; needs |x̄_1 - x*|^2, which the paper prints without the square (E20)."""
    if c.distance2 is None:
        raise ValueError("Theorem 2 needs distance2 = |x̄_1 - x*|^2: give it, or use theorem_1, which needs no optimum")
    s1, s2, s3, gamma1 = _sums(c, steps, rounds)
    return Bound(
        optimisation=3 * c.n * c.distance2 / c.eta / s1,
        variance=5 * c.sigma2 / (c.eta * c.n) * s2 / s1,
        network=48 * _mixing(c.rho) * c.L_tilde * c.sigma2 * s3 / s1,
        initial=6 * gamma1 * c.C(gamma1) / s1,
        quantity=THEOREM_2,
    )


@dataclass(frozen=True)
class Tuned:
    """Corollary 2: the constant step that balances the terms for K rounds, and what it promises."""

    step: float
    bound: Bound
    """Term by term, at this step."""
    simple: float
    """30 D sigma_s / (eta sqrt(K)) + 12 n L C / K; for sigma_s = 0 the total of ``bound``, which falls like 1/K."""
    rounds_needed: float
    """From this K on the balanced step is admissible and the network term no larger than the variance term."""


def corollary_2(c: Constants, rounds: int) -> Tuned:
    """gamma = D / (sqrt(K) L sigma_s). Without noise its limit case: the largest admissible step, and O(1/K).

    At a stationary start (D = 0) there is nothing to balance; the largest admissible step is kept there too.
    """
    _check_rounds(rounds)
    needed = independence_rounds(c)
    if c.sigma2 == 0 or c.D == 0:
        bound = theorem_1(c, c.largest_step, rounds)
        return Tuned(c.largest_step, bound, bound.total, needed)
    if rounds < needed:
        raise ValueError(
            f"Corollary 2 needs K >= {math.ceil(needed)} rounds for this network and noise, but {rounds} were given; "
            f"run longer, or use theorem_1 with a step up to {c.largest_step:.3g}"
        )
    sigma, K = math.sqrt(c.sigma2), rounds
    step = c.D / (math.sqrt(K) * c.L * sigma)
    simple = 30 * c.D * sigma / (c.eta * math.sqrt(K)) + 12 * c.n * c.L * c.C(step) / K
    return Tuned(step, theorem_1(c, step, rounds), simple, needed)


def independence_rounds(c: Constants) -> float:
    """The K of Corollary 2 from which the network stops mattering; 0 without noise, where no K is needed."""
    if c.sigma2 == 0:
        return 0.0
    n2lam2 = (c.n * c.lam) ** 2
    mixing = (11 * c.rho**2 * c.n + 1) * math.sqrt(1 + 1.5 * n2lam2) / (1 - c.rho)
    front = c.eta * c.D * (1 + math.sqrt(c.rho)) ** 2 / (math.sqrt(c.sigma2) * (1 - c.rho) ** 2)
    return (front * max(mixing, 37 * n2lam2)) ** 2


def corollary_1(c: Constants, a: float, p: float, rounds: int) -> Bound:
    """Diminishing steps gamma_t = a / t^p with 0.5 <= p <= 1: O(1/K^(1-p)), with ln K at p = 0.5.

    p = 1 is the limit case 1/ln K of the printed 0/0 (E23). K = 1 has no closed form; ``theorem_1`` has one.
    """
    if not 0.5 <= p <= 1:
        raise ValueError(f"p is {p:g}, but Corollary 1 is about steps a / t^p with 0.5 <= p <= 1")
    _check_rounds(rounds)
    if rounds < 2:
        raise ValueError("Corollary 1 is infinite at K = 1; give K >= 2, or use theorem_1 with the same steps")
    _check_step(c, a)
    K = rounds
    s1 = a * (math.log(K) if p == 1 else (K ** (1 - p) - 1) / (1 - p))
    s2 = a**2 * (math.log(K) + 1 if p == 0.5 else 2 * p / (2 * p - 1))
    s3 = a**3 * 3 * p / (3 * p - 1)
    return _theorem_1(c, s1, s2, s3, a)


def diminishing(a: float, p: float) -> Callable[[int], float]:
    """The schedule of Corollary 1: lr(k) = a / (k + 1)^p."""
    return lambda k: a / (k + 1) ** p


def _theorem_1(c: Constants, s1: float, s2: float, s3: float, gamma1: float) -> Bound:
    """R(K) <= (12 D^2/(eta L) + 9 L sigma²/eta S2 + 96 rho²(1+√rho)²/(1-rho)³ n L L̃ sigma² S3 + 12 n L gamma_1 C)/S1"""
    return Bound(
        optimisation=12 * c.D**2 / (c.eta * c.L) / s1,
        variance=9 * c.L * c.sigma2 / c.eta * s2 / s1,
        network=96 * _mixing(c.rho) * c.n * c.L * c.L_tilde * c.sigma2 * s3 / s1,
        initial=12 * c.n * c.L * gamma1 * c.C(gamma1) / s1,
        quantity=THEOREM_1,
    )


def _mixing(rho: float) -> float:
    return rho**2 * (1 + math.sqrt(rho)) ** 2 / (1 - rho) ** 3


def _sums(c: Constants, steps: Steps, rounds: int) -> tuple[float, float, float, float]:
    """The sums of gamma, gamma^2 and gamma^3 over K rounds, and gamma_1."""
    _check_rounds(rounds)
    if not callable(steps):
        _check_step(c, steps)
        return rounds * steps, rounds * steps**2, rounds * steps**3, steps
    gamma: np.ndarray[Any, np.dtype[np.float64]] = np.array([steps(k) for k in range(rounds)])
    rising = np.flatnonzero(np.diff(gamma) > 0)
    if len(rising):
        k = int(rising[0])
        raise ValueError(
            f"the step rises from {gamma[k]:g} to {gamma[k + 1]:g} in round {k + 1}, but the theorems need steps that "
            "never rise; leave out the warm-up"
        )
    _check_step(c, float(gamma[0]))
    _check_step(c, float(gamma[-1]))
    return float(gamma.sum()), float((gamma**2).sum()), float((gamma**3).sum()), float(gamma[0])


def _check_rounds(rounds: int) -> None:
    if rounds < 1:
        raise ValueError(f"K is {rounds}, but a bound is about at least one round: give rounds >= 1")


def _check_step(c: Constants, step: float) -> None:
    # rounding aside: the largest step itself is allowed
    if not 0 < step <= c.largest_step * (1 + 1e-12):
        raise ValueError(
            f"the step is {step:g}, but Theorem 1 holds for 0 < step <= {c.largest_step:.6g} with rho = {c.rho:.4g} "
            f"and L = {c.L:.4g}; use a smaller one, or advise(), whose practical limit is larger but proven for equal "
            "quadratics only"
        )
