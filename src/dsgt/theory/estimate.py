"""The constants of the theorems, from what a user of the simulator has: a problem and a network."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from dsgt.core import Needs, Network
from dsgt.data.sampling import WithReplacement
from dsgt.problems.base import Problem
from dsgt.problems.erm import EmpiricalRisk
from dsgt.problems.least_squares import LeastSquares
from dsgt.problems.logistic import Logistic
from dsgt.run import as_network, as_start
from dsgt.theory.constants import Constants
from dsgt.theory.curvature import batch_noise, closed_form, curvatures_met
from dsgt.theory.draws import Sampled, descend, expensive, mean_gradients, spread
from dsgt.topologies.matrix import MatrixLike
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
    """The largest curvature of a node's loss that a run meets: max L_i for least squares; elsewhere seen at the start
    and after some descent, below max L_i where that is a worst case which training does not visit (softmax)."""
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
            X1=self.X1,
            Y1=self.Y1.value,
        )


def estimate(
    problem: Problem,
    network: Network | MatrixLike,
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
    if problem.nodes != network.nodes:
        raise ValueError(f"the problem has {problem.nodes} nodes and the network {network.nodes}: partition it again")
    quick = expensive(problem)
    draws = (8 if quick else 32) if draws is None else draws
    if draws < 2:
        raise ValueError(f"draws is {draws}, but a variance needs at least 2")
    start = problem.start(seed) if x0 is None else x0
    X = as_start(start, network) if network.node is None else start.expand(problem.nodes, start.shape[-1]).clone()
    x1 = X.mean(dim=0)
    gradients, about = mean_gradients(problem, X, seed, draws)
    notes += about

    known = closed_form(problem)
    look = partial(curvatures_met, problem, gradients, seed=seed, quick=quick)
    here = (*known[:2], batch_noise(problem)) if known and isinstance(problem, LeastSquares) else look(X)
    L_i, L_F, mu = known or (here[0], here[1], 0.0)
    if known:
        notes.append("L_i and L hold everywhere: closed form")
    else:
        notes.append("L_i and L are local: power iteration on the Hessian at the start; they may grow during training")
    if not float(L_i.max()) > 0:
        raise ValueError("every gradient is constant at the start (L = 0): start elsewhere, or nothing can be learnt")
    later, progress = descend(problem, gradients, X, here[1])
    met = [here] if isinstance(problem, LeastSquares) else [here, look(later)]

    optimum, bounded = problem.optimum, isinstance(problem, Logistic)
    there = later if optimum is None else optimum.expand_as(X).contiguous()
    G = gradients(there)
    at_start, at_end = spread(problem, X, gradients(X), seed, draws), spread(problem, there, G, seed, draws)
    worst = at_start if at_start.total.value >= at_end.total.value else at_end
    where = "the end of a short descent" if optimum is None else "the optimum"
    why = "logistic gradients are bounded" if bounded else "if the variance grows no further; `growing` fits lambda"
    notes.append(f"sigma^2 is the larger one of the start and {where}, from {draws} rounds; lambda = 0: {why}")
    gap = _gap(problem, x1, optimum, lowest)
    if optimum is None:
        notes.append(f"F* >= {lowest:g} stands in for the unknown optimum, so F(x_1) - F* is an upper bound")

    slope = float(gradients(x1.expand_as(X).contiguous()).double().sum(dim=0).norm())  # grad f = n grad F
    excess = max(0.0, float((at_start.per_node - at_end.per_node).max()))
    return Estimate(
        n=problem.nodes,
        rho=mixing,
        L_i=L_i,
        L_F=L_F,
        L_met=max(float(m[0].max()) for m in met),
        L_F_met=max(m[1] for m in met),
        L_noise=max(m[2] for m in met),
        mu=mu,
        sigma2=worst.total,
        sigma2_i=worst.per_node,
        sigma2_end=at_end.total,
        sigma2_sample=_one_sample(problem, there[0], G, at_end.per_node),
        bounded=bounded,
        lam=math.sqrt(excess) / slope if slope > 0 else 0.0,
        zeta2=float((G - G.mean(dim=0)).double().square().sum()) / problem.nodes,
        gap=gap,
        distance2=None if optimum is None else float((x1 - optimum).double().square().sum()),
        progress=torch.stack([progress[0], (progress[1] - progress[1][0] + gap).clamp_min(0.0)], dim=1),
        X1=float((X - x1).double().square().sum()),
        Y1=at_start.disagreement,
        assumptions=tuple(notes),
    )


def _gap(problem: Problem, x1: Tensor, optimum: Tensor | None, lowest: float) -> float:
    value = float(problem.loss(x1))
    if optimum is not None:
        return max(0.0, value - float(problem.loss(optimum)))
    if value < lowest:
        raise ValueError(f"F(x_1) = {value:g} is below lowest = {lowest:g}: give a value that F never falls below")
    return value - lowest


def _one_sample(problem: Problem, x: Tensor, G: Tensor, variances: Tensor) -> float | None:
    """The variance of the gradient of one sample of the union: within the shards and between them.

    Var[s_i] = w_i^2 (within_i) / b_i for sampling with replacement, w_i = n N_i/N; for other ways it is not told.
    """
    if not (isinstance(problem, EmpiricalRisk) and isinstance(problem.sampling, WithReplacement)):
        return None
    w, share = problem.weights.double(), problem.shards.sizes.double() / problem.samples
    within = variances.to(w.device) * problem.batch.double() / w**2
    means = (G.double() - problem.l2 * x.double()) / w[:, None]
    between = (means - share @ means).square().sum(dim=1)
    return float(share @ (within + between))


def mixing_rate(network: Network) -> tuple[float, list[str]]:
    """rho, and what is assumed about it. Refuses weights that are not doubly stochastic or do not mix."""
    check("the theory of DSGT", Needs(), network.matrices)
    period = len(network.matrices)
    factor = rho_of_rounds(network.matrices)
    factor = 0.0 if factor < 1e-12 else factor  # averaging weights, up to rounding
    if period == 1:
        return factor, []
    slow = max(factor ** (1 / period), 1 - 1 / period)
    return slow, [f"the theorems are about one W: rho is the mean factor per round over a period of {period} rounds"]
