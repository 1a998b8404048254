"""The fastest weights of a graph: FDLA and FMMC, with a certificate.

Fastest distributed linear averaging: the symmetric W of the graph with the smallest rho; weights may be negative.
Fastest mixing Markov chain: the same with nonnegative weights.
Xiao and Boyd, Fast linear iterations for distributed averaging, Systems & Control Letters 53, 2004.
Boyd, Diaconis and Xiao, Fastest mixing Markov chain on a graph, SIAM Review 46, 2004.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from dsgt.core import Matrix
from dsgt.late import nx
from dsgt.threads import threads
from dsgt.topologies.assemble import assemble
from dsgt.topologies.check import undirected
from dsgt.topologies.fastest.certificate import lower_bound
from dsgt.topologies.fastest.interior import Point, first, iterates
from dsgt.topologies.fastest.problem import Problem
from dsgt.topologies.fastest.schur import affordable

FASTEST_UP_TO = 5000
"""The nodes beyond which the n x n multipliers no longer fit a few GB."""
STEPS = 60
CERTIFIED_FROM = 1e-9
"""From this gap on every point is certified: the last that rounding allows may have worse bounds than the first."""


@dataclass(frozen=True)
class Fastest:
    """Weights with the proof of how good they are: lower_bound <= rho of any weights on this graph <= rho."""

    W: Matrix
    rho: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """How much smaller the best rho can be, at most."""
        return max(0.0, self.rho - self.lower_bound)


def fdla(graph: nx.Graph[int], *, tol: float = 1e-6) -> Fastest:
    """The symmetric weights with the smallest rho, to a certified gap of tol. They may be negative.

    At the optimum lambda_2 = -lambda_n = rho, so D2 may not use them when rho >= 1/3; see ``lift``.
    """
    return _fastest(graph, "FDLA", tol, nonnegative=False)


def fmmc(graph: nx.Graph[int], *, tol: float = 1e-6) -> Fastest:
    """The symmetric nonnegative weights with the smallest rho, to a certified gap of tol."""
    return _fastest(graph, "FMMC", tol, nonnegative=True)


def _fastest(graph: nx.Graph[int], name: str, tol: float, *, nonnegative: bool) -> Fastest:
    undirected(graph, name)
    if not tol > 0:
        raise ValueError(f"tol is {tol}, but a gap can only be reached when it is positive; use tol=1e-6")
    if len(graph) > FASTEST_UP_TO:
        raise ValueError(
            f"{name} was asked for {len(graph)} nodes, but keeps matrices of nodes x nodes and stops at "
            f"{FASTEST_UP_TO}; use best_constant or metropolis for a graph of this size"
        )
    problem = Problem.of(graph, nonnegative=nonnegative)
    if problem.edges == 0:
        return Fastest(assemble(1, [], [], []), 0.0, 0.0)
    with threads(1):
        w, rho, bound = _solve(problem, tol)
    if rho - bound > tol:
        message = (
            f"{name} stopped at rho = {rho:.9g} with a gap of {rho - bound:.1e}, above the tol = {tol:.1e} asked for"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    return Fastest(assemble(problem.n, problem.i.numpy(), problem.j.numpy(), w.numpy()), rho, bound)


def _solve(problem: Problem, tol: float) -> tuple[Tensor, float, float]:
    """The best weights met, their rho, and the best lower bound met: the last two are found independently."""
    w, rho = balanced(problem, metropolis_weights(problem))
    bound, stale = 0.0, 0
    if rho <= tol:
        return w, rho, bound
    # A certificate costs eigenvalues: little beside conjugate gradients, whose best bound need not be their last.
    always = affordable(problem) > 0
    for step, (at, gap, last) in enumerate(iterates(problem, start(problem, w, rho))):
        if gap > 3 * max(tol, CERTIFIED_FROM) and step < STEPS and not always and not last:
            continue
        before = rho - bound
        bound = max(bound, lower_bound(problem, at.X[0] - at.X[1], at.z[problem.edges :]))
        better_w, better = balanced(problem, at.w)
        # Of equals the newer, nearer to the centre: else rounding chooses, and new names for the nodes choose anew.
        if better < rho + 0.01 * tol:
            w, rho = better_w, better
        # Believed to be there, and yet no better: rounding, or inexact steps, set the limit.
        stale = stale + 1 if gap <= 3 * tol and rho - bound > 0.9 * before else 0
        if rho - bound <= tol or step >= STEPS or stale == 3:
            break
    return w, rho, bound


def start(problem: Problem, w: Tensor, rho: float) -> Point:
    """A well-centred interior point: a fifth above rho and, for a Markov chain, where every node keeps something."""
    if problem.nonnegative:
        w = w * min(1.0, 0.95 / float(problem.at_nodes(w).max()))
        rho = float(torch.linalg.eigvalsh(problem.centred(w)).abs().max())
    return first(problem, w, 1.2 * rho)


def metropolis_weights(problem: Problem) -> Tensor:
    degree = problem.at_nodes(torch.ones(problem.edges, dtype=torch.float64))
    return 1 / (1 + torch.maximum(degree[problem.i], degree[problem.j]))


def balanced(problem: Problem, w: Tensor) -> tuple[Tensor, float]:
    """The multiple of w with the smallest rho, where lambda_2 = -lambda_n, and that rho.

    A Markov chain's nodes cannot give away more than they have, so its multiple may have to stop before.
    """
    values = torch.linalg.eigvalsh(problem.laplacian(w))
    scale = 2 / float(values[1] + values[-1])
    if problem.nonnegative:
        scale = min(scale, max(1.0, (1 - 1e-12) / float(problem.at_nodes(w).max())))
    low, high = 1 - scale * float(values[-1]), 1 - scale * float(values[1])
    return scale * w, max(high, -low)
