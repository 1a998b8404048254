"""Lipschitz constants of gradients: closed forms where there are any, power iteration everywhere else.

All in the package's units: L_i belongs to F_i = (n N_i / N) (mean loss of node i) + (l2/2) |x|^2.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dsgt.problems.base import Problem
from dsgt.problems.least_squares import LeastSquares
from dsgt.problems.logistic import Logistic

Field = Callable[[Tensor], Tensor]
"""Stacked models (n, m) -> stacked gradients (n, m)."""


def closed_form(problem: Problem) -> tuple[Tensor, float, float] | None:
    """L_i for every node, L of F and the strong convexity of F, where the problem tells; bounds for logistic loss."""
    if isinstance(problem, LeastSquares):
        c = problem.constants
        return c.L_i.double(), c.L, c.mu
    if isinstance(problem, Logistic):
        bend = 0.25 if problem.scores == 1 else 0.5  # of the loss as a function of the scores (Böhning)
        tops = [torch.linalg.matrix_norm(problem.rows[shard].double(), 2).square() for shard in problem.shards]
        L_i = torch.stack(tops) * bend * problem.nodes / problem.samples + problem.l2
        return L_i, problem.smoothness, problem.l2
    return None


def power_iteration(gradient: Field, x: Tensor, *, steps: int = 30, seed: int = 0) -> Tensor:
    """The largest |eigenvalue| of every node's Hessian at its row of x, (n,), from differences of gradients.

    Approached from below: a spectrum without a gap may read a few percent low after 30 steps. Works for any gradient,
    also where autograd cannot see it; two gradients per step.
    """
    generator = torch.Generator().manual_seed(seed)
    v = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
    v = v / v.norm(dim=-1, keepdim=True)
    # the cube root balances rounding, eps/h, against curvature of the gradient, h^2
    h = torch.finfo(x.dtype).eps ** (1 / 3) * (1 + x.norm(dim=-1, keepdim=True))
    size = torch.zeros(len(x), dtype=torch.float64)
    for _ in range(steps):
        Hv = (gradient(x + h * v) - gradient(x - h * v)) / (2 * h)
        norm = Hv.norm(dim=-1, keepdim=True)
        size = norm[:, 0].double().cpu()
        v = torch.where(norm > 0, Hv / norm.clamp_min(torch.finfo(x.dtype).tiny), v)
    return size


def batch_curvature(problem: Problem, x: Tensor, *, draws: int, seed: int, steps: int = 12) -> float:
    """The largest curvature that a node's *mini-batch* loss shows in some sampled rounds.

    A step that suits the whole shard may be too long for a small batch that happens to hold long feature vectors.
    """
    oracle = problem.oracle(seed)
    first, rounds = oracle(x, 0), range(draws)
    if torch.equal(first, oracle(x, 1)):
        rounds = range(1)  # every round draws the same

    def at(k: int) -> Field:
        return lambda z: oracle(z, k)

    return max(float(power_iteration(at(k), x, steps=steps, seed=k).max()) for k in rounds)
