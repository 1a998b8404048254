"""A learning rate that is cheap to multiply small tensors by."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor


class PreparedRate(float):
    """A float that is also kept as a tensor. torch converts a Python float anew for every product, which for a small
    tensor takes longer than the product itself."""

    __slots__ = ("_scalar",)
    _scalar: Tensor

    def __new__(cls, value: float, dtype: torch.dtype) -> Self:
        rate = super().__new__(cls, value)
        rate._scalar = torch.tensor(value, dtype=dtype)
        return rate

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Tensor) and other.dtype is self._scalar.dtype:
            return other * self._scalar
        return float(self) * other
