"""Which learning rate to use, and why: the theorem's limit, the practical limit, and what may go wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsgt.algorithms import D2, DSGT
from dsgt.core import Algorithm, Network
from dsgt.networks.cycle import Cycle
from dsgt.problems.base import Problem
from dsgt.run import as_network
from dsgt.theory.bounds import independence_rounds
from dsgt.theory.estimate import Estimate, estimate
from dsgt.theory.measured import measured_limit
from dsgt.theory.stability import Method, Window, window
from dsgt.topologies.matrix import MatrixLike

MARGIN = 0.8
"""Of the limit for equal quadratics; unequal curvatures lowered it to 0.91 of that at worst (docs/theory.md)."""


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
    network: Network | MatrixLike,
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
    stable, how = stable_window(method, network)
    if stable.empty or stable.high <= 0:
        raise ValueError(
            f"{method.__name__} is stable on this network for no learning rate; use DSGT, or weights (I + W)/2"
        )
    limit = MARGIN * stable.high / e.L_batch
    best, why = tuned_for_noise(e, rounds)
    lr = min(limit, best)
    c = e.constants
    proven = min(c.largest_step, e.growing.largest_step)
    reasons = [
        f"quadratics are stable on this network for lr L < {stable.high:.3g} ({how}); batches show curvature up to "
        f"{e.L_batch:.3g}, and a margin of {MARGIN:g} leaves lr <= {limit:.3g}",
        why,
    ]
    if e.sigma2.value > 0:
        K = independence_rounds(c)
        reasons.append(
            f"Theorem 1 allows lr <= {proven:.3g} and calls the network harmless from {K:.2g} rounds on; both "
            "are worst cases over all problems, usually 100 to 10,000 times too careful"
        )
    return Advice(lr, proven, limit, _risk(e, method, stable, lr, limit, proven), tuple(reasons))


def stable_window(method: Method, network: Network) -> tuple[Window, str]:
    """The stable range of lr L for equal quadratics, and how it is known."""
    matrices = network.matrices
    n = matrices[0].shape[0]
    doubly = all(abs(np.asarray(W.sum(axis=a)) - 1).max() < 1e-6 for W in matrices for a in (0, 1))
    if len(matrices) == 1 and doubly:
        return window(method, matrices[0]), "exact, from the eigenvalues of W"
    algorithm: Algorithm[Any] = method()
    return Window(0.0, measured_limit(algorithm, Cycle(list(matrices)))), f"measured on {n} equal quadratics"


def tuned_for_noise(e: Estimate, rounds: int) -> tuple[float, str]:
    """The lr that minimises (what is left of the start) + (what the noise keeps up) after K rounds; inf without noise.

    With t = lr K: convex, min(|x1 - x*|^2 / 2t, gap exp(-2 mu t)) + lr s/4, where s is the variance of the mean
    gradient at the end (lr s / 4 is its stationary excess loss on quadratics); otherwise gap / t + lr L s / 2, the mean
    squared gradient of centralized SGD, whose minimum is sqrt(2 gap / (L s K)).
    """
    s = e.sigma2_end.value / e.n**2
    if s == 0 or e.gap == 0:
        return math.inf, "the gradients carry no noise, so only stability limits lr"
    if e.distance2 is None:
        lr = math.sqrt(2 * e.gap / (e.L_F * s * rounds))
        return lr, f"noise against progress over {rounds} rounds: sqrt(2 gap / (L s K)) = {lr:.3g}, s = {s:.3g}"
    grid = np.geomspace(1e-8, 1e3, 2000) / e.L_F
    t = grid * rounds
    left = np.minimum(e.distance2 / (2 * t), e.gap * np.exp(-2 * e.mu * t))
    lr = float(grid[np.argmin(left + grid * s / 4)])
    return lr, f"noise (variance {s:.3g} of the mean gradient) against progress over {rounds} rounds: lr = {lr:.3g}"


def _risk(e: Estimate, method: Method, stable: Window, lr: float, limit: float, proven: float) -> str:
    if method is D2 and stable.low > 0:
        return (
            f"high: D2 is unstable for lr c <= {stable.low:.3g} in every direction of curvature c, and real losses "
            "have flat directions; use topologies.lift(W, -1/3), or DSGT"
        )
    if lr <= proven:
        return "low: Theorem 1 covers this learning rate"
    if e.distance2 is None and e.mu == 0:
        return (
            "medium: L is local or the loss has no known optimum; curvature may grow during training, so watch the "
            "first rounds and halve lr if the loss rises"
        )
    if lr > 0.99 * limit:
        return "medium: at the practical limit, which is exact for equal quadratics and has held for unequal ones"
    return "low: well inside the practical limit, though above what Theorem 1 proves"
