"""Lipschitz constants of gradients: closed forms where there are any, power iteration everywhere else.

All in the package's units: L_i belongs to F_i = (n N_i / N) (mean loss of node i) + (l2/2) |x|^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from dsgt.problems.base import Problem
from dsgt.problems.least_squares import LeastSquares
from dsgt.problems.logistic import Logistic

Field = Callable[[Tensor], Tensor]
"""Stacked models (n, m) -> stacked gradients (n, m)."""
FEWEST, MOST = 16, 64
"""How many rounds are looked at for the curvature of batches."""


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
    also where autograd cannot see it, for one gradient per step.
    """
    generator = torch.Generator().manual_seed(seed)
    v = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
    v = v / v.norm(dim=-1, keepdim=True)
    # the square root balances rounding, eps/h, against how the Hessian changes, h
    h = torch.finfo(x.dtype).eps ** 0.5 * (1 + x.norm(dim=-1, keepdim=True))
    g = gradient(x).clone()
    size = torch.zeros(len(x), dtype=torch.float64)
    for _ in range(steps):
        Hv = (gradient(x + h * v) - g) / h
        norm = Hv.norm(dim=-1, keepdim=True)
        size = norm[:, 0].double().cpu()
        v = torch.where(norm > 0, Hv / norm.clamp_min(torch.finfo(x.dtype).tiny), v)
    return size


def expected_smoothness(problem: LeastSquares) -> float:
    """max_i of w_i ((1 - 1/b_i) lambda_max(A_i'A_i)/N_i + max_u |a_u|^2 / b_i) + l2, with w_i = n N_i/N.

    E[H_b^2] <= (this) E[H_b] for the Hessian H_b of a batch drawn with replacement, so 2 / this is where SGD stays
    bounded in mean square (Gower et al., SGD: general analysis and improved rates, 2019). Exact gradients: max L_i.
    """
    shares = []
    for i, shard in enumerate(problem.shards):
        A, b = problem.rows[shard].double(), float(problem.batch[i])
        b = float("inf") if problem.sampling.constant else b
        whole = torch.linalg.matrix_norm(A, 2).square() / len(A)
        shares.append(float(problem.weights[i]) * float((1 - 1 / b) * whole + A.square().sum(dim=1).max() / b))
    return max(shares) + problem.l2


def batch_curvature(problem: Problem, x: Tensor, *, seed: int) -> float:
    """The largest curvature that a node's *mini-batch* loss shows in some sampled rounds, about three epochs of them.

    A step that suits the whole shard may be too long for a small batch that happens to hold long feature vectors.
    """
    oracle = problem.oracle(seed)
    rounds, steps = range(min(MOST, max(FEWEST, math.ceil(3 / problem.epochs_per_round)))), 8
    if torch.equal(oracle(x, 0).clone(), oracle(x, 1)):
        rounds, steps = range(1), 30  # every round draws the same

    def at(k: int) -> Field:
        return lambda z: oracle(z, k)

    return max(float(power_iteration(at(k), x, steps=steps, seed=k).max()) for k in rounds)
