"""Gradients inverted: what conjugates and resolvents have in common.

    own x + weight grad(x) = r,    grad the gradient of a part of f_i without its penalty

A conjugate is the case own = l2, weight = 1 of all of f_i; a resolvent own = 1 + lr l2, weight = lr. Where there is no
closed form, x is found to |own x + weight grad(x) - r| <= ``tolerance`` (1 + |r|), for every node by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

Number: TypeAlias = "float | Tensor"
"""One for all nodes here, or one for each, (..., 1)."""


@dataclass(frozen=True, eq=False)
class Solutions:
    x: Tensor
    """Of every node here."""
    gradients: int
    """What they have cost, in gradients of the part."""


Inverse: TypeAlias = Callable[[Tensor, Tensor, Number, Number, Tensor], Solutions]
"""(r, j, own, weight, near) -> x, where node i asks for its part j_i; ``near`` is a guess to start from."""


class Counted:
    """A function that knows how often it was called."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self._function, self.calls = function, 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self._function(x)


WHO = "LeastSquares, Logistic, and Model with convex=True do"


def goal(r: Tensor) -> Tensor:
    """Where a solver may stop: thousands of times better than what is accepted."""
    return 64 * torch.finfo(r.dtype).eps * _size(r)


def tolerance(dtype: torch.dtype) -> float:
    """1e-12 in float64, 5e-4 in float32."""
    return 4096 * torch.finfo(dtype).eps


def accepted(x: Tensor, residual: Tensor, r: Tensor) -> Tensor:
    """x, unless its residual says that no solver could have found a solution."""
    off = torch.linalg.vector_norm(residual, dim=-1, keepdim=True) / _size(r)
    if not bool((off <= tolerance(r.dtype)).all()):
        raise ArithmeticError(
            f"the equation of a conjugate or resolvent was solved to {float(off.max()):.1g} only, but "
            f"{tolerance(r.dtype):.1g} was expected: the function is not smooth and strongly convex, or too badly "
            "scaled; use a larger l2, or standardise the features"
        )
    return x


def column(number: Number, like: Tensor) -> Tensor:
    """As (n, 1) or (1, 1)."""
    return torch.as_tensor(number, dtype=like.dtype, device=like.device).view(-1, 1)


def _size(r: Tensor) -> Tensor:
    return 1 + r.square().sum(dim=-1, keepdim=True).sqrt()
