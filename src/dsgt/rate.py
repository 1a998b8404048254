"""A learning rate that is cheap to multiply by: ``x - lr * y`` is written as mathematics and runs as one pass."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

LARGE = 1 << 15
"""Numbers in a tensor from which on a pass over its memory costs more than the detour of saving one."""


class Rate(float):
    """A number.

    torch converts a Python number anew for every product, which for a small tensor takes longer than the product
    itself: this one has been converted. A large tensor is multiplied only when it is needed, and never for x - lr y."""

    __slots__ = ("_scalar",)
    _scalar: Tensor

    def __new__(cls, value: float, dtype: torch.dtype) -> Self:
        rate = super().__new__(cls, value)
        rate._scalar = torch.tensor(value, dtype=dtype)
        return rate

    def __mul__(self, other: Any) -> Any:
        if not (isinstance(other, Tensor) and other.dtype is self._scalar.dtype):
            return float(self) * other
        if other.numel() < LARGE or other.requires_grad:
            return other * self._scalar
        scaled = other.as_subclass(_Scaled)
        scaled.by, scaled.plain = float(self), other
        return scaled


class _Scaled(Tensor):
    """by * plain. Whatever torch is asked to do with it, but to subtract it, is done with the product."""

    by: float
    plain: Tensor

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.sub and not kwargs and isinstance(args[1], _Scaled) and args[0].shape == args[1].plain.shape:
            return torch.sub(_multiplied(args[0]), args[1].plain, alpha=args[1].by)
        return func(*_multiplied(args), **_multiplied(kwargs or {}))


def _multiplied(given: Any) -> Any:
    """The same with every product computed."""
    if isinstance(given, _Scaled):
        return given.plain * given.by
    if isinstance(given, list | tuple):
        return type(given)(_multiplied(g) for g in given)
    return {key: _multiplied(g) for key, g in given.items()} if isinstance(given, dict) else given
