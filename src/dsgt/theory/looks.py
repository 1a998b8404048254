"""What is seen of a problem at the start of a run and after a short descent: curvatures, and the noise of gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from dsgt.core import Network
from dsgt.data.sampling import WithReplacement
from dsgt.problems.base import Problem
from dsgt.problems.erm import EmpiricalRisk
from dsgt.problems.least_squares import LeastSquares
from dsgt.run import as_start
from dsgt.theory.curvature import Field, batch_noise, closed_form, curvatures_met
from dsgt.theory.draws import Spread, descend, expensive, mean_gradients, spread


@dataclass(frozen=True, eq=False)
class Start:
    """Where a run starts, and how its gradients are looked at."""

    problem: Problem
    X: Tensor
    """Every node's model, (n, m)."""
    gradients: Field
    """Without noise."""
    draws: int
    seed: int
    quick: bool
    """Gradients are slow: look at few."""


def start_of(
    problem: Problem, network: Network, x0: Tensor | None, draws: int | None, seed: int
) -> tuple[Start, list[str]]:
    """And what is assumed about the gradients."""
    if problem.nodes != network.nodes:
        raise ValueError(f"the problem has {problem.nodes} nodes and the network {network.nodes}: partition it again")
    quick = expensive(problem)
    draws = (8 if quick else 32) if draws is None else draws
    if draws < 2:
        raise ValueError(f"draws is {draws}, but a variance needs at least 2")
    start = problem.start(seed) if x0 is None else x0
    X = as_start(start, network) if network.node is None else start.expand(problem.nodes, start.shape[-1]).clone()
    gradients, notes = mean_gradients(problem, X, seed, draws)
    return Start(problem, X, gradients, draws, seed, quick), notes


@dataclass(frozen=True, eq=False)
class Curvatures:
    """Those of ``Estimate``, and a short descent with a step that they allow."""

    L_i: Tensor
    L_F: float
    mu: float
    everywhere: bool
    """Whether they hold at every model, not only at the start."""
    L_met: float
    L_F_met: float
    L_noise: float
    later: Tensor
    """The models at the end of the descent."""
    progress: tuple[Tensor, Tensor]
    """Its times and losses."""


def curvatures(at: Start) -> Curvatures:
    """In closed form where the problem has one, else seen at the start and at the end of a short descent."""
    problem, known = at.problem, closed_form(at.problem)
    look = partial(curvatures_met, problem, at.gradients, seed=at.seed, quick=at.quick)
    here = (*known[:2], batch_noise(problem)) if known and isinstance(problem, LeastSquares) else look(at.X)
    L_i, L_F, mu = known or (here[0], here[1], 0.0)
    if not float(L_i.max()) > 0:
        raise ValueError("every gradient is constant at the start (L = 0): start elsewhere, or nothing can be learnt")
    later, progress = descend(problem, at.gradients, at.X, here[1])
    met = [here] if isinstance(problem, LeastSquares) else [here, look(later)]
    return Curvatures(
        L_i,
        L_F,
        mu,
        everywhere=known is not None,
        L_met=max(float(m[0].max()) for m in met),
        L_F_met=max(m[1] for m in met),
        L_noise=max(m[2] for m in met),
        later=later,
        progress=progress,
    )


@dataclass(frozen=True, eq=False)
class Noise:
    """How much the gradients vary at the start and at a reference point near the end."""

    start: Spread
    end: Spread
    lam: float
    zeta2: float
    one_sample: float | None

    @property
    def worst(self) -> Spread:
        return self.start if self.start.total.value >= self.end.total.value else self.end


def noise(at: Start, there: Tensor) -> Noise:
    problem, X = at.problem, at.X
    G = at.gradients(there)
    start = spread(problem, X, at.gradients(X), at.seed, at.draws)
    end = spread(problem, there, G, at.seed, at.draws)
    same = X.mean(dim=0).expand_as(X).contiguous()
    slope = float(at.gradients(same).double().sum(dim=0).norm())  # grad f = n grad F
    excess = max(0.0, float((start.per_node - end.per_node).max()))
    return Noise(
        start,
        end,
        lam=math.sqrt(excess) / slope if slope > 0 else 0.0,
        zeta2=float((G - G.mean(dim=0)).double().square().sum()) / problem.nodes,
        one_sample=_one_sample(problem, there[0], G, end.per_node),
    )


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
