"""The constants of the theorems, from what a user of the simulator has: a problem and a network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dsgt.core import Needs, Network
from dsgt.problems.base import Problem
from dsgt.problems.erm import EmpiricalRisk
from dsgt.problems.least_squares import LeastSquares
from dsgt.problems.logistic import Logistic
from dsgt.run import as_network
from dsgt.theory.constants import Constants
from dsgt.theory.curvature import batch_noise, closed_form, curvature_of_mean, curvatures_met, power_iteration
from dsgt.topologies.matrix import MatrixLike
from dsgt.topologies.needs import check
from dsgt.topologies.spectrum import rho

LARGE = 10**8
"""Samples times parameters up to which exact gradients are affordable; beyond, means of a few mini-batches serve."""


@dataclass(frozen=True)
class Sampled:
    """A number from random draws, with an interval that holds it in about 95 of 100 cases (normal approximation)."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g}" if self.low == self.high else f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


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
    draws: int = 32,
    seed: int = 0,
) -> Estimate:
    """L_i, L, sigma_i^2, lambda, zeta^2 and F(x_1) - F*.

    ``x0`` is where the run starts, (m,) or one row per node; ``lowest`` is a value that F never falls below, used where
    the optimum is not known; ``draws`` rounds are sampled for the variances.
    """
    network = as_network(network)
    mixing, about_rho = mixing_rate(network)
    if problem.nodes != network.nodes:
        raise ValueError(f"the problem has {problem.nodes} nodes and the network {network.nodes}: partition it again")
    if draws < 2:
        raise ValueError(f"draws is {draws}, but a variance needs at least 2")
    start = problem.start(seed) if x0 is None else x0
    X = start.expand(problem.nodes, -1).clone() if start.ndim == 1 else start
    notes = list(about_rho)
    gradients, about = _mean_gradients(problem, X, seed, draws)
    notes += about

    known = closed_form(problem)
    if known is not None:
        L_i, L_F, mu = known
        notes.append("L_i and L hold everywhere: closed form")
    else:
        L_i = power_iteration(gradients, X)
        L_F, mu = curvature_of_mean(gradients, X), 0.0
        notes.append("L_i and L are local: power iteration on the Hessian at the start; they may grow during training")
    if not float(L_i.max()) > 0:
        raise ValueError(
            "every gradient is constant at the start (L = 0): start elsewhere, or there is nothing to learn"
        )

    optimum = problem.optimum
    later, progress = _descend(problem, gradients, X, L_F if known is None else curvature_of_mean(gradients, X))
    if isinstance(problem, LeastSquares):
        met = (float(L_i.max()), L_F, batch_noise(problem))
    else:
        both = [curvatures_met(problem, gradients, Z, seed=seed) for Z in (X, later)]
        met = (max(b[0] for b in both), max(b[1] for b in both), max(b[2] for b in both))
    reference = later[0] if optimum is None else optimum
    at_start = _spread(problem, X, gradients(X), seed, draws)
    there = reference.expand_as(X).contiguous()
    at_reference = _spread(problem, there, gradients(there), seed, draws)
    worst = at_start if at_start.total.value >= at_reference.total.value else at_reference
    where = "the optimum" if optimum is not None else "the end of a short descent"
    bounded = isinstance(problem, Logistic)
    why = "logistic gradients are bounded" if bounded else "if the variance grows no further; `growing` fits lambda"
    notes.append(f"sigma^2 is the larger one of the start and {where}, from {draws} rounds; lambda = 0: {why}")

    common = X.mean(dim=0).expand_as(X).contiguous()
    g1 = float(gradients(common).double().sum(dim=0).norm())  # grad f = n grad F
    excess = float((at_start.per_node - at_reference.per_node).max())
    lam = math.sqrt(max(0.0, excess)) / g1 if g1 > 0 else 0.0
    value = float(problem.loss(X.mean(dim=0)).double())
    if optimum is not None:
        gap = max(0.0, value - float(problem.loss(optimum).double()))
    else:
        gap = value - lowest
        notes.append(f"F* >= {lowest:g} stands in for the unknown optimum, so F(x_1) - F* is an upper bound")
        if gap < 0:
            raise ValueError(
                f"F(x_1) is {value:g}, below lowest = {lowest:g}: give a value that the loss never falls below"
            )
    G = gradients(there).double()
    return Estimate(
        n=problem.nodes,
        rho=mixing,
        L_i=L_i,
        L_F=L_F,
        L_met=met[0],
        L_F_met=met[1],
        L_noise=met[2],
        mu=mu,
        sigma2=worst.total,
        sigma2_i=worst.per_node,
        sigma2_end=at_reference.total,
        bounded=bounded,
        lam=lam,
        zeta2=float((G - G.mean(dim=0)).square().sum()) / problem.nodes,
        gap=gap,
        distance2=None if optimum is None else float((X.mean(dim=0) - optimum).double().square().sum()),
        progress=torch.stack([progress[0], (progress[1] - value + gap).clamp_min(0.0)], dim=1),
        X1=float((X - X.mean(dim=0)).double().square().sum()),
        Y1=at_start.disagreement,
        assumptions=tuple(notes),
    )


def mixing_rate(network: Network) -> tuple[float, list[str]]:
    """rho, and what is assumed about it. Refuses weights that are not doubly stochastic or do not mix."""
    check("the theory of DSGT", Needs(), network.matrices)
    period = len(network.matrices)
    product = network.matrices[0]
    for W in network.matrices[1:]:
        product = W @ product
    factor = rho(product)
    factor = 0.0 if factor < 1e-12 else factor  # averaging weights, up to rounding
    if period == 1:
        return factor, []
    slow = max(factor ** (1 / period), 1 - 1 / period)
    return slow, [f"the theorems are about one W: rho is the mean factor per round over a period of {period} rounds"]


@dataclass(frozen=True, eq=False)
class _Spread:
    total: Sampled
    per_node: Tensor
    disagreement: Sampled


def _spread(problem: Problem, X: Tensor, mean: Tensor, seed: int, draws: int) -> _Spread:
    """Var[s_i] around the mean gradients, and E||Y_1 - 1 ȳ_1'||^2 for Y_1 = S_1, over some rounds."""
    oracle = problem.oracle(seed)
    squares, apart = [], []
    for k in range(draws):
        s = oracle(X, k)
        squares.append((s - mean).double().square().sum(dim=-1))
        apart.append(float((s - s.mean(dim=0)).double().square().sum()))
    all_ = torch.stack(squares)
    return _Spread(_interval(all_.sum(dim=1)), all_.mean(dim=0), _interval(torch.tensor(apart, dtype=torch.float64)))


def _interval(values: Tensor) -> Sampled:
    mean, half = float(values.mean()), 1.96 * float(values.std()) / math.sqrt(len(values))
    return Sampled(mean, max(0.0, mean - half), mean + half)


def _mean_gradients(
    problem: Problem, start: Tensor, seed: int, draws: int
) -> tuple[Callable[[Tensor], Tensor], list[str]]:
    """Every node's gradient without noise: from all samples where the problem has samples, else a mean of draws."""
    if isinstance(problem, EmpiricalRisk) and problem.samples * problem.dim <= LARGE:
        full = problem.full().oracle(seed)
        return (lambda X: full(X, 0)), []
    oracle = problem.oracle(seed + 1)  # other draws than those whose spread is measured
    few = min(draws, 4)

    def mean(X: Tensor) -> Tensor:
        return torch.stack([oracle(X, k) for k in range(few)]).mean(dim=0)

    if torch.equal(oracle(start, 0).clone(), oracle(start, 1)):
        return (lambda X: oracle(X, 0)), []
    return mean, [
        f"mean gradients are means of {few} draws: variances are 1/{few} too large and L that of {few} batches"
    ]


def _descend(
    problem: Problem, gradients: Callable[[Tensor], Tensor], X: Tensor, L: float
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """40 steps of gradient descent with lr = 1/(2 L), short enough to show a time scale: where it gets (every row the
    same), and the loss F at every fourth step with its time t = lr times steps."""
    X = X.mean(dim=0).expand_as(X).contiguous()
    losses = [float(problem.loss(X[0]))]
    lr = 0.5 / L if L > 0 else 0.0
    for k in range(1, 41):
        X = (X - lr * gradients(X).mean(dim=0)).contiguous()
        if k % 4 == 0:
            losses.append(float(problem.loss(X[0])))
    return X, (4 * lr * torch.arange(11, dtype=torch.float64), torch.tensor(losses, dtype=torch.float64))
