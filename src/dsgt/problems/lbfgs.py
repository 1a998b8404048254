"""L-BFGS by gradients alone, for many smooth, strongly convex problems at once: one in each row, as in newton.py.

The line search looks for a place where the slope is at most half of what it was: along a line the slope of a convex
function only grows, so bisection finds it, and no loss is needed, whose last digits could not tell the way.
Nocedal, Updating quasi-Newton matrices with limited storage, 1980.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

KEPT = 12
"""How many of the last steps stand for the curvature."""
PATIENCE = 15
"""A row is done after so many steps in which its residual has found no new lowest value."""


def solve(x: Tensor, residual: Callable[[Tensor], Tensor], *, goal: Tensor | float = 0.0, steps: int = 1000) -> Tensor:
    """From x (..., m) on, until the norm of each row's residual is at most ``goal``, or no step shrinks it any more."""
    r = residual(x)
    best, least = x, _dot(r, r).sqrt()
    waited = torch.zeros_like(least)
    pairs: list[tuple[Tensor, Tensor]] = []
    for _ in range(steps):
        moving = (least > goal) & (waited < PATIENCE)
        if not moving.any():
            break
        further, r_further = _along(x, r, torch.where(moving, _direction(r, pairs), 0.0), residual)
        pairs = [*pairs[-KEPT + 1 :], (further - x, r_further - r)]
        x, r = further, r_further
        size = _dot(r, r).sqrt()
        better = moving & (size < least)
        best, least = torch.where(better, x, best), torch.where(better, size, least)
        waited = torch.where(better, 0.0, waited + 1)
    return best


def _direction(r: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The two loops; before the first step a step of length 1 at most, downhill."""
    if not pairs:
        return -r / _dot(r, r).sqrt().clamp(min=1)
    weights, d = [], -r
    for s, y in reversed(pairs):
        a = _ratio(_dot(s, d), _dot(s, y))
        weights.append(a)
        d = d - a * y
    s, y = pairs[-1]
    d = d * torch.where(_dot(y, y) > 0, _ratio(_dot(s, y), _dot(y, y)), 1.0)
    for (s, y), a in zip(pairs, reversed(weights), strict=True):
        d = d + (a - _ratio(_dot(y, d), _dot(s, y))) * s
    return d


def _along(x: Tensor, r: Tensor, d: Tensor, residual: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """A place on the line from x along d, and the residual there."""
    begin = _dot(r, d)
    t, low = torch.ones_like(begin), torch.zeros_like(begin)
    high = torch.full_like(begin, math.inf)
    for _ in range(40):
        further = x + t * d
        r_further = residual(further)
        slope = _dot(r_further, d)
        short, far = slope < 0.5 * begin, slope > -0.5 * begin
        if not (short | far).any():
            break
        low, high = torch.where(short, t, low), torch.where(far, t, high)
        t = torch.where(short | far, torch.where(high.isinf(), 2 * t, (low + high) / 2), t)
    return further, r_further


def _dot(u: Tensor, v: Tensor) -> Tensor:
    return (u * v).sum(dim=-1, keepdim=True)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b; 0 where b says that a row does not move any more."""
    return torch.where(b > 0, a / torch.where(b > 0, b, 1.0), 0.0)
