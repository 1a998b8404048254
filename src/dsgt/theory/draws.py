"""What can be seen of a problem by drawing gradients from it: their means, their spread, and how descent goes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dsgt.problems.base import Problem
from dsgt.problems.erm import EmpiricalRisk

AFFORDABLE = 10**8
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
class Spread:
    """How much the nodes' stochastic gradients vary at some models."""

    total: Sampled
    """sum_i Var[s_i]"""
    per_node: Tensor
    """Var[s_i], (n,)"""
    disagreement: Sampled
    """E||S - 1 s̄'||^2, which is E||Y_1 - 1 ȳ_1'||^2 because Y_1 = S_1."""


def spread(problem: Problem, X: Tensor, mean: Tensor, seed: int, draws: int) -> Spread:
    """The spread around the mean gradients, over some rounds."""
    oracle = problem.oracle(seed)
    squares, apart = [], []
    for k in range(draws):
        s = oracle(X, k)
        squares.append((s - mean).double().square().sum(dim=-1))
        apart.append(float((s - s.mean(dim=0)).double().square().sum()))
    all_ = torch.stack(squares)
    return Spread(interval(all_.sum(dim=1)), all_.mean(dim=0), interval(torch.tensor(apart, dtype=torch.float64)))


def interval(values: Tensor) -> Sampled:
    mean, half = float(values.mean()), 1.96 * float(values.std()) / math.sqrt(len(values))
    return Sampled(mean, max(0.0, mean - half), mean + half)


def expensive(problem: Problem) -> bool:
    """Whether exact gradients are too slow to take a hundred of them."""
    return isinstance(problem, EmpiricalRisk) and problem.samples * problem.dim > AFFORDABLE


def mean_gradients(
    problem: Problem, start: Tensor, seed: int, draws: int
) -> tuple[Callable[[Tensor], Tensor], list[str]]:
    """Every node's gradient without noise: from all samples where the problem has samples, else a mean of draws."""
    if isinstance(problem, EmpiricalRisk) and not expensive(problem):
        full = problem.full().oracle(seed)
        return (lambda X: full(X, 0)), []
    oracle = problem.oracle(seed + 1)  # other draws than those whose spread is measured
    few = min(draws, 2 if expensive(problem) else 4)

    def mean(X: Tensor) -> Tensor:
        return torch.stack([oracle(X, k) for k in range(few)]).mean(dim=0)

    if torch.equal(oracle(start, 0).clone(), oracle(start, 1)):
        return (lambda X: oracle(X, 0)), []
    return mean, [
        f"mean gradients are means of {few} draws: variances are 1/{few} too large and L that of {few} batches"
    ]


def descend(
    problem: Problem, gradients: Callable[[Tensor], Tensor], X: Tensor, L: float
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """40 steps of gradient descent on F with lr = 1/(2 L).

    Gives the last model (in every row), and every fourth step's time t = lr times steps with its loss F.
    """
    X = X.mean(dim=0).expand_as(X).contiguous()
    losses = [float(problem.loss(X[0]))]
    lr = 0.5 / L if L > 0 else 0.0
    for k in range(1, 41):
        X = (X - lr * gradients(X).mean(dim=0)).contiguous()
        if k % 4 == 0:
            losses.append(float(problem.loss(X[0])))
    return X, (4 * lr * torch.arange(11, dtype=torch.float64), torch.tensor(losses, dtype=torch.float64))
