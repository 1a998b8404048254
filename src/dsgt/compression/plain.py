"""All numbers, as they are or in half precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dsgt.compression.base import Compressor, Draw
from dsgt.compression.wires import cut, finite, joined


@dataclass(frozen=True)
class Identity(Compressor):
    """Nothing is left out: what a compressed method is without compression."""

    name: ClassVar[str] = "identity"
    unbiased: ClassVar[bool] = True

    def bytes(self, m: int, element: int = 4) -> int:
        return m * element

    def variance(self, m: int) -> float:
        return 0.0

    def pack(self, v: Tensor, draw: Draw) -> Tensor:
        return joined(v)

    def unpack(self, wire: Tensor, m: int, dtype: torch.dtype) -> Tensor:
        return finite(cut(wire, 0, m, dtype)).clone()


@dataclass(frozen=True)
class _Rounded(Compressor):
    """Rounding is not random, so it is biased, by at most half a unit in the last place."""

    unbiased: ClassVar[bool] = False
    half: ClassVar[torch.dtype]

    def bytes(self, m: int, element: int = 4) -> int:
        return 2 * m

    def variance(self, m: int) -> float:
        return float(torch.finfo(self.half).eps / 2) ** 2

    def pack(self, v: Tensor, draw: Draw) -> Tensor:
        return joined(v.to(self.half))

    def unpack(self, wire: Tensor, m: int, dtype: torch.dtype) -> Tensor:
        return finite(cut(wire, 0, m, self.half).to(dtype, copy=True))


@dataclass(frozen=True)
class BFloat16(_Rounded):
    """Eight bits of every number, and float32's range."""

    name: ClassVar[str] = "bfloat16"
    half: ClassVar[torch.dtype] = torch.bfloat16


@dataclass(frozen=True)
class Float16(_Rounded):
    """Eleven bits of every number between 6e-5 and 65504. A run whose messages grow above diverges; they stop at 6e-8
    below."""

    name: ClassVar[str] = "float16"
    half: ClassVar[torch.dtype] = torch.float16
