"""Which learning rate to use, and why: the theorem's limit, the practical limit, and what may go wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsgt.algorithms import DSGT
from dsgt.core import Algorithm, Network
from dsgt.problems.base import Problem
from dsgt.run import NetworkLike, as_network
from dsgt.theory.bounds import independence_rounds
from dsgt.theory.estimate import Estimate, estimate
from dsgt.theory.independence import has_typical_ratio, typical_ratio
from dsgt.theory.stability import MARGIN, Method, as_method, window
from dsgt.topologies.needs import complaints
from dsgt.topologies.spectrum import is_symmetric

Array = np.ndarray[Any, np.dtype[np.float64]]

BURSTS = 2.0
"""A safety factor on the noise of small batches: near the limit it comes in rare, large bursts."""


@dataclass(frozen=True)
class Advice:
    """A learning rate for a problem, a network and a number of rounds."""

    lr: float
    limit_theory: float
    """Up to here Theorem 1 proves convergence, for every smooth problem with these constants."""
    limit_practice: float
    """Up to here quadratics of the curvature met are stable, with a margin of 20 percent."""
    risk: str
    """"low", "medium" or "high", and why."""
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"lr = {self.lr:.3g}   (theorem: up to {self.limit_theory:.3g}, practice: up to {self.limit_practice:.3g})"
        ]
        return "\n".join([*lines, f"risk: {self.risk}", *(f"- {reason}" for reason in self.reasons)])


def advise(
    problem: Problem,
    network: NetworkLike,
    rounds: int,
    *,
    method: Method = DSGT,
    known: Estimate | None = None,
    seed: int = 0,
) -> Advice:
    """The learning rate that leaves the smallest loss after ``rounds`` rounds, as far as the constants tell.

    ``known`` saves estimating the constants again. The advice is for the mean loss, the package's units.
    """
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}, but advice is for at least one round")
    network = as_network(network)
    e = estimate(problem, network, seed=seed) if known is None else known
    algorithm = as_method(method)
    stable = window(algorithm, network)
    if stable.empty:
        raise ValueError(
            f"{type(algorithm).__name__} is stable on this network for no learning rate; use DSGT, or weights (I + W)/2"
        )
    L, about = effective_curvature(e, network, stable.high)
    limit = MARGIN * stable.high / L
    lr, why = tuned_for_noise(e, rounds, limit)
    c = e.constants
    proven = (c if e.bounded else e.growing).largest_step
    reasons = [
        f"equal quadratics are stable on this network for lr L < {stable.high:.3g} ({stable.how})",
        f"{about}; a margin of {MARGIN:g} leaves lr <= {limit:.3g}",
        why,
    ]
    if isinstance(algorithm, DSGT) and stable.high < 1.99 and all(is_symmetric(W) for W in network.matrices):
        reasons.append(
            f"a negative eigenvalue of W costs stability: topologies.lift(W, -0.41) would allow lr L < 2, "
            f"{2 / stable.high:.2g} times as much, for slower mixing"
        )
    if e.sigma2.value > 0:
        K = independence_rounds(c)
        reasons.append(
            f"Theorem 1 proves lr <= {proven:.3g}, and Corollary 2 calls the network harmless from {K:.2g} rounds on; "
            "both are worst cases over all problems with these constants"
        )
    return Advice(lr, proven, limit, _risk(e, algorithm, network, lr, limit, proven), tuple(reasons))


def effective_curvature(e: Estimate, network: Network, high: float) -> tuple[float, str]:
    """L + share * L_noise: a node's curvature, and the part of its batches' noise that averaging leaves to it.

    A node's model carries its own noise with variance (1 + typical_ratio)/n, against 1 for a node alone.
    """
    if e.rho == 0:
        L = e.L_F_met + e.L_noise / e.n
        return L, f"with averaging weights this is centralized SGD: curvature {L:.3g} of the mean loss"
    share = 1.0
    if not network.weights.changes and has_typical_ratio(network.matrices[0]):
        c = MARGIN * high * e.L_met / (e.L_met + e.L_noise)
        share = min(1.0, BURSTS * (1 + typical_ratio(network.matrices[0], c)) / e.n)
    L = e.L_met + share * e.L_noise
    return L, (
        f"the most curved node has L = {e.L_met:.3g}, and small batches add {share * e.L_noise:.3g} "
        f"({share:.2g} of a node's own noise stays with it)"
    )


def tuned_for_noise(e: Estimate, rounds: int, limit: float) -> tuple[float, str]:
    """The lr up to ``limit`` that minimises (what is left of the start) + (what the noise keeps up) after K rounds.

    What is left after t = lr K is measured along gradient descent, and beyond its end continued as a power of t, never
    above |x1 - x*|^2 / 2t nor gap exp(-2 mu t). What the noise keeps up is the stationary excess loss of SGD on
    quadratics, lr s / 4 with s the variance of the mean gradient at the end, and more where lr nears the edge of
    stability: 1 / (1 - lr/edge) times.
    """
    s = e.sigma2_end.value / e.n**2
    if s == 0 or e.gap == 0:
        return limit, "the gradients carry no noise, so only stability limits lr"
    grid = limit * np.geomspace(1e-6, 1, 1000)
    edge = limit / MARGIN
    lr = float(grid[np.argmin(remaining(e, grid * rounds) + grid * s / 4 / (1 - grid / edge))])
    best = "stability, not noise, limits lr" if lr > 0.999 * limit else f"best at lr = {lr:.3g}"
    return lr, f"progress over {rounds} rounds against noise (variance {s:.3g} of the mean gradient): {best}"


def remaining(e: Estimate, t: Array) -> Array:
    """F - F* after gradient descent for a time t, as far as the measured points tell."""
    times, excess = (v.numpy() for v in e.progress.T)
    end, middle = len(times) - 1, len(times) // 2
    left: Array = np.interp(t, times, excess)
    if 0 < excess[end] < excess[middle]:
        power = math.log(excess[middle] / excess[end]) / math.log(times[end] / times[middle])
        left = np.where(t > times[end], excess[end] * (np.maximum(t, times[end]) / times[end]) ** -power, left)
    left = np.minimum(left, e.gap * np.exp(-2 * e.mu * t))
    return left if e.distance2 is None else np.minimum(left, e.distance2 / (2 * t))


def _risk(e: Estimate, algorithm: Algorithm[Any], network: Network, lr: float, limit: float, proven: float) -> str:
    for complaint in complaints(algorithm.needs, network.weights):
        return f"high: {type(algorithm).__name__} {complaint}; or use DSGT"
    is_dsgt = isinstance(algorithm, DSGT)
    if lr <= proven and is_dsgt:
        return "low: Theorem 1 covers this learning rate"
    if e.distance2 is None and e.mu == 0:
        return (
            "medium: L is local or the loss has no known optimum; curvature may grow during training, so watch the "
            "first rounds and halve lr if the loss rises"
        )
    if lr > 0.7 * limit:
        return "medium: near the practical limit, which is exact for equal quadratics and has held for unequal ones"
    return "low: well inside the practical limit" + ", though above what Theorem 1 proves" * is_dsgt
