"""The constants of the theorems, from what a user of the simulator has: a problem and a network."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dsgt.core import Needs, Network
from dsgt.problems.base import Problem
from dsgt.problems.logistic import Logistic
from dsgt.run import NetworkLike, as_network
from dsgt.theory.constants import Constants
from dsgt.theory.draws import Sampled
from dsgt.theory.looks import Curvatures, Start, curvatures, noise, start_of
from dsgt.topologies.needs import check
from dsgt.topologies.spectrum import rho_of_rounds


@dataclass(frozen=True, eq=False)
class Estimate:
    """What is known about a problem on a network, in the package's units (mean losses; see theory.constants)."""

    n: int
    rho: float
    L_i: Tensor
    """Lipschitz constants of the nodes' own gradients, (n,)."""
    L_F: float
    """Lipschitz constant of the gradient of the mean loss F."""
    L_met: float
    """The largest curvature of a node's loss seen at the start and after a short descent. For least squares it is
    max L_i; for other losses it may be smaller, because L_i is a worst case that training need not meet."""
    L_F_met: float
    """The same for F."""
    L_noise: float
    """What mini-batches add to a node's curvature, in mean square (theory.curvature.batch_noise)."""
    mu: float
    """Strong convexity of F, or a lower bound of it; 0 where it is not known."""
    sigma2: Sampled
    """sum_i sigma_i^2, the largest over the points looked at."""
    sigma2_i: Tensor
    """sigma_i^2 of every node at that point, (n,)."""
    sigma2_end: Sampled
    """The same sum at the reference point: the noise that is left at the end."""
    sigma2_sample: float | None
    """The variance of one sample's gradient, drawn from all nodes' samples together, at the reference point; None where
    it cannot be told from the draws (exact gradients, sampling without replacement)."""
    bounded: bool
    """Whether the variance is bounded wherever the run goes, so that lambda = 0 is right (logistic losses)."""
    lam: float
    """The smallest lambda that explains how the variance falls from the start to ``reference``."""
    zeta2: float
    """(1/n) sum_i |grad F_i - grad F|^2 at the reference point: how different the nodes' data are (E13)."""
    gap: float
    """F(x_1) - F*, or an upper bound of it."""
    distance2: float | None
    """|x_1 - x*|^2 where the optimum is known."""
    progress: Tensor
    """t and F(x(t)) - F* (or its bound) along gradient descent from the start, t = lr times steps; (11, 2)."""
    X1: float
    Y1: Sampled
    assumptions: tuple[str, ...]
    """What has to be true for these numbers to mean what they say."""

    @property
    def L(self) -> float:
        return float(self.L_i.max())

    @property
    def growing(self) -> Constants:
        """For the theorems where the variance grows with the gradient, as in least squares: sigma^2 of the reference
        point and the fitted lambda."""
        return replace(self.constants, sigma2=self.sigma2_end.value, lam=self.lam)

    @property
    def constants(self) -> Constants:
        """For the theorems: lambda = 0 with the largest variance seen, and f = n F."""
        return Constants(
            n=self.n,
            L=self.L,
            rho=self.rho,
            sigma2=self.sigma2.value,
            gap=self.n * self.gap,
            distance2=self.distance2,
            mu=self.mu,
            X1=self.X1,
            Y1=self.Y1.value,
        )


def estimate(
    problem: Problem,
    network: NetworkLike,
    *,
    x0: Tensor | None = None,
    lowest: float = 0.0,
    draws: int | None = None,
    seed: int = 0,
) -> Estimate:
    """L_i, L, sigma_i^2, lambda, zeta^2 and F(x_1) - F*.

    ``x0`` is where the run starts, (m,) or one row per node; ``lowest`` is a value that F never falls below, used where
    the optimum is not known; ``draws`` rounds are sampled for the variances, 32 unless told, or 8 where gradients are
    slow.
    """
    network = as_network(network)
    mixing, notes = mixing_rate(network)
    at, about = start_of(problem, network, x0, draws, seed)
    curved, optimum, x1 = curvatures(at), problem.optimum, at.X.mean(dim=0)
    seen = noise(at, curved.later if optimum is None else optimum.expand_as(at.X).contiguous())
    gap = _gap(problem, x1, optimum, lowest)
    t, losses = curved.progress
    return Estimate(
        n=problem.nodes,
        rho=mixing,
        L_i=curved.L_i,
        L_F=curved.L_F,
        L_met=curved.L_met,
        L_F_met=curved.L_F_met,
        L_noise=curved.L_noise,
        mu=curved.mu,
        sigma2=seen.worst.total,
        sigma2_i=seen.worst.per_node,
        sigma2_end=seen.end.total,
        sigma2_sample=seen.one_sample,
        bounded=isinstance(problem, Logistic),
        lam=seen.lam,
        zeta2=seen.zeta2,
        gap=gap,
        distance2=None if optimum is None else float((x1 - optimum).double().square().sum()),
        progress=torch.stack([t, (losses - losses[0] + gap).clamp_min(0.0)], dim=1),
        X1=float((at.X - x1).double().square().sum()),
        Y1=seen.start.disagreement,
        assumptions=(*notes, *about, *_assumptions(at, curved, optimum, lowest)),
    )


def _assumptions(at: Start, curved: Curvatures, optimum: Tensor | None, lowest: float) -> list[str]:
    if curved.everywhere:
        notes = ["L_i and L hold everywhere: closed form"]
    else:
        notes = ["L_i and L are local: power iteration on the Hessian at the start; they may grow during training"]
    where = "the end of a short descent" if optimum is None else "the optimum"
    bounded = isinstance(at.problem, Logistic)
    why = "logistic gradients are bounded" if bounded else "if the variance grows no further; `growing` fits lambda"
    notes.append(f"sigma^2 is the larger one of the start and {where}, from {at.draws} rounds; lambda = 0: {why}")
    if optimum is None:
        notes.append(f"F* >= {lowest:g} stands in for the unknown optimum, so F(x_1) - F* is an upper bound")
    return notes


def _gap(problem: Problem, x1: Tensor, optimum: Tensor | None, lowest: float) -> float:
    value = float(problem.loss(x1))
    if optimum is not None:
        return max(0.0, value - float(problem.loss(optimum)))
    if value < lowest:
        raise ValueError(f"F(x_1) = {value:g} is below lowest = {lowest:g}: give a value that F never falls below")
    return value - lowest


def mixing_rate(network: Network) -> tuple[float, list[str]]:
    """rho, and what is assumed about it. Refuses weights that are not doubly stochastic or do not mix."""
    check("the theory of DSGT", Needs(), network.weights)
    period = len(network.matrices)
    factor = rho_of_rounds(network.matrices)
    factor = 0.0 if factor < 1e-12 else factor  # averaging weights, up to rounding
    if period == 1:
        return factor, []
    slow = max(factor ** (1 / period), 1 - 1 / period)
    return slow, [f"the theorems are about one W: rho is the mean factor per round over a period of {period} rounds"]
