"""Newton's method with conjugate gradients, for the exact optimum of a smooth, strongly convex problem."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor


def minimise(
    x: Tensor,
    loss: Callable[[Tensor], Tensor],
    gradient: Callable[[Tensor], Tensor],
    hessian_times: Callable[[Tensor, Tensor], Tensor],
    *,
    steps: int = 100,
) -> Tensor:
    """The minimiser, as exactly as the dtype allows: until a full step no longer shrinks the gradient."""
    g = gradient(x)
    for _ in range(steps):
        step = conjugate_gradients(partial(hessian_times, x), -g)
        t = 1.0
        while float(loss(x + t * step)) > float(loss(x)) and t > 1e-4:
            t /= 2
        t = t if t > 1e-4 else 1.0  # at rounding level the loss cannot decide any more, but the gradient can
        g_new = gradient(x + t * step)
        if t == 1.0 and not float(g_new.norm()) < float(g.norm()):
            return x
        x, g = x + t * step, g_new
    return x


def conjugate_gradients(H: Callable[[Tensor], Tensor], b: Tensor, *, tolerance: float = 1e-3) -> Tensor:
    """H^-1 b to a relative residual that shrinks with |b|, which makes Newton's method converge superlinearly."""
    goal = min(tolerance, float(b.norm())) * float(b.norm())
    v = torch.zeros_like(b)
    r = b.clone()
    p = b.clone()
    rr = float(r @ r)
    for _ in range(10 * len(b)):
        if rr**0.5 <= goal or rr == 0.0:
            break
        Hp = H(p)
        alpha = rr / float(p @ Hp)
        v += alpha * p
        r -= alpha * Hp
        rr_new = float(r @ r)
        p = r + (rr_new / rr) * p
        rr = rr_new
    return v
