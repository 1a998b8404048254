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
FEWEST, MOST = 16, 32
"""How many rounds are looked at for the curvature of batches."""
EXACT_UP_TO = 400
"""Features up to which the noise of least squares is computed; beyond, an upper bound is."""


def closed_form(problem: Problem) -> tuple[Tensor, float, float] | None:
    """L_i for every node, L of F and the strong convexity of F, where the problem tells; bounds for logistic loss."""
    if isinstance(problem, LeastSquares):
        c = problem.constants
        return c.L_i.double(), c.L, c.mu
    if isinstance(problem, Logistic):
        bend = 0.25 if problem.scores == 1 else 0.5  # of the loss as a function of the scores (Böhning)
        tops = [torch.linalg.matrix_norm(problem.rows[shard].double(), 2).square() for shard in problem.places]
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


def batch_noise(problem: LeastSquares) -> float:
    """How much of a node's curvature is noise: max_i of lambda_max(H_i^-1/2 Var[H_b] H_i^-1/2).

    SGD on batches with Hessians H_b stays bounded in mean square iff lr E[H_b^2] < 2 E[H_b]: the noise acts like this
    much additional curvature. With replacement Var[H_b] = (w_i^2 / b_i) (E[|a|^2 a a'] - E[a a']^2), w_i = n N_i/N.
    """
    if problem.sampling.constant:
        return 0.0
    worst = 0.0
    for i, shard in enumerate(problem.places):
        A, w, b = problem.rows[shard].double(), float(problem.weights[i]), float(problem.batch[i])
        long = A.square().sum(dim=1)
        if A.shape[1] > EXACT_UP_TO:
            worst = max(worst, w / b * float(long.max()))  # an upper bound
            continue
        values, vectors = torch.linalg.eigh(A.mT @ A / len(A))
        kept = values > 1e-12 * values[-1]
        half = vectors[:, kept] / values[kept].sqrt()
        spread = (A.mT * long) @ A / len(A) - (A.mT @ A / len(A)).matrix_power(2)
        worst = max(worst, w / b * float(torch.linalg.eigvalsh(half.mT @ spread @ half)[-1]))
    return worst


def curvature_of_mean(gradients: Field, X: Tensor, *, steps: int = 30) -> float:
    """The largest |eigenvalue| of the Hessian of F = mean of the F_i, at the mean of these models."""

    def mean(Z: Tensor) -> Tensor:
        return gradients(Z.expand_as(X).contiguous()).mean(dim=0, keepdim=True)

    return float(power_iteration(mean, X.mean(dim=0, keepdim=True), steps=steps)[0])


def curvatures_met(problem: Problem, full: Field, X: Tensor, *, seed: int, quick: bool) -> tuple[Tensor, float, float]:
    """At these models: the nodes' curvatures (n,), that of F, and how much of a node's curvature is noise.

    The noise is E|H_b|^2 / |H_i| - |H_i| over about three epochs of rounds, the same quantity as ``batch_noise`` with
    norms in place of matrices. ``quick`` looks at fewer rounds with fewer steps, for models whose gradients are slow.
    """
    steps = 10 if quick else 30
    L_i = power_iteration(full, X, steps=steps)
    L_F = curvature_of_mean(full, X, steps=steps)
    oracle = problem.oracle(seed)
    if torch.equal(oracle(X, 0).clone(), oracle(X, 1)):
        return L_i, L_F, 0.0  # every round draws the same

    def at(k: int) -> Field:
        return lambda Z: oracle(Z, k)

    rounds = 4 if quick else min(MOST, max(FEWEST, math.ceil(3 / problem.epochs_per_round)))
    steps = 5 if quick else 8
    squares = torch.stack([power_iteration(at(k), X, steps=steps, seed=k).square() for k in range(rounds)])
    noise = squares.mean(dim=0) / L_i.clamp_min(1e-300) - L_i
    return L_i, L_F, max(0.0, float(noise.max()))
