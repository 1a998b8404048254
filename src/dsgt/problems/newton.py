"""Newton's method with conjugate gradients, for many smooth, strongly convex problems at once: one in each row.

    residual(x) = 0,    where residual is the gradient of what is minimised

Rows are computed together, but each stops by itself: what comes out for a row does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

HALVINGS = 14
LOOSEST, TIGHTEST = 1e-3, 1e-6
"""Relative residuals of the inner solve: loose far away, and tight enough near the end for superlinear convergence."""


def solve(
    x: Tensor,
    residual: Callable[[Tensor], Tensor],
    derivative: Callable[[Tensor], Callable[[Tensor], Tensor]],
    *,
    goal: Tensor | float = 0.0,
    steps: int = 100,
) -> Tensor:
    """From x (..., m) on, until the norm of each row's residual is at most ``goal``, or no step shrinks it any more.

    ``derivative(x)`` is a function that multiplies with the residual's derivative at x, symmetric and positive.
    A step is halved until the residual shrinks, which needs no loss and works to the last digit.
    """
    r = residual(x)
    size = _norm(r)
    moving = size > goal
    for _ in range(steps):
        if not moving.any():
            break
        step = conjugate_gradients(derivative(x), torch.where(moving, -r, 0.0))
        t = torch.ones_like(size)
        for _ in range(HALVINGS):
            further = x + t * step
            r_further = residual(further)
            smaller = _norm(r_further) < (1 - t / 10) * size
            if (smaller | ~moving).all():
                break
            t = torch.where(smaller, t, t / 2)
        took = moving & smaller
        x, r = torch.where(took, further, x), torch.where(took, r_further, r)
        size = _norm(r)
        moving = took & (size > goal)
    return x


def conjugate_gradients(H: Callable[[Tensor], Tensor], b: Tensor) -> Tensor:
    """H^-1 b for every row (..., m), to a relative residual that shrinks with |b|."""
    size = _norm(b)
    goal = size.clamp(TIGHTEST, LOOSEST) * size
    v, r, p = torch.zeros_like(b), b, b
    rr = size.square()
    for _ in range(10 * b.shape[-1]):
        going = rr.sqrt() > goal
        if not going.any():
            break
        Hp = H(p)
        alpha = torch.where(going, rr / (p * Hp).sum(dim=-1, keepdim=True), 0.0)
        v, r = v + alpha * p, r - alpha * Hp
        new = r.square().sum(dim=-1, keepdim=True)
        p = torch.where(going, r + new / rr * p, p)
        rr = new
    return v


def _norm(v: Tensor) -> Tensor:
    return v.square().sum(dim=-1, keepdim=True).sqrt()
