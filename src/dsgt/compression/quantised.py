"""All numbers, in a few bits each, and a scale for every block of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dsgt.compression.base import DITHERS, Compressor, Draw
from dsgt.compression.wires import cut, joined, squeezed, squeezed_length, stretched
from dsgt.core import WireError

SCALE = torch.float32
PIECE = 1 << 16
"""Numbers that are quantised at a time."""


def working(dtype: torch.dtype) -> torch.dtype:
    """Half precision is computed in float32."""
    return torch.promote_types(dtype, torch.float32)


class _Blocks(Compressor):
    block: int

    def _check_block(self) -> None:
        if not (isinstance(self.block, int) and self.block >= 1):
            raise ValueError(f"block of {type(self).__name__} is {self.block}; expected how many numbers share a scale")

    def _count(self, m: int) -> int:
        return -(-m // self.block)

    def _pieces(self, v: Tensor) -> Iterator[tuple[Tensor, int, int]]:
        """Copies (..., blocks, block) of some blocks of v, the last filled up with zeros, and from where to where they
        are: so few at a time that they stay in the cache."""
        m, lead = v.shape[-1], v.shape[:-1]
        size = self.block * max(1, PIECE // (lead.numel() * self.block * DITHERS)) * DITHERS
        for start in range(0, m, size):
            stop = min(start + size, m)
            filled = torch.zeros(*lead, self._count(stop - start) * self.block, dtype=working(v.dtype), device=v.device)
            filled[..., : stop - start] = v[..., start:stop]
            blocks: Tensor = filled.unflatten(-1, (-1, self.block))
            yield blocks, start, stop

    def _read_scales(self, wire: Tensor, m: int) -> Tensor:
        """(..., blocks, 1)."""
        scales = cut(wire, 0, self._count(m), SCALE)
        # half of the largest number, because a damaged code may be larger than any that is sent
        if not bool(((scales >= 0) & (scales <= torch.finfo(SCALE).max / 2)).all()):
            raise WireError("the scales of a wire are not finite or negative")
        return scales.unsqueeze(-1)

    def _scaled(self, codes: Tensor, scales: Tensor, m: int, dtype: torch.dtype) -> Tensor:
        """Codes (..., blocks * block), which are overwritten, times the scale of their block."""
        codes.unflatten(-1, (-1, self.block)).mul_(scales.to(codes.dtype))
        return codes[..., :m].to(dtype)


@dataclass(frozen=True)
class Quantise(_Blocks):
    """Rounded at random to the nearest two of 2^bits - 1 levels between minus and plus the block's largest absolute
    value (two levels where bits is 1), so that the mean is right: QSGD with one scale a block."""

    bits: int = 4
    block: int = 256
    seed: int = 0
    name: ClassVar[str] = "quantise"
    unbiased: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bits not in (1, 2, 4, 8):
            raise ValueError(f"bits of Quantise is {self.bits}; expected 1, 2, 4 or 8, which fill a byte")
        self._check_block()

    @property
    def levels(self) -> float:
        """Above zero; 1/2 where there are but two."""
        return (2**self.bits - 1) // 2 or 0.5

    def bytes(self, m: int, element: int = 4) -> int:
        return SCALE.itemsize * self._count(m) + squeezed_length(m, self.bits)

    def variance(self, m: int) -> float:
        """Each number is off by a variance of at most a quarter of a step's square, and by none at the largest."""
        length = min(m, self.block)
        if self.bits == 1:
            return length - 1.0
        step = 1 / self.levels
        return min((length - 1) * step**2 / 4, math.sqrt(length) * step)

    def pack(self, v: Tensor, draw: Draw) -> Tensor:
        codes, scales = torch.empty(v.shape, dtype=torch.uint8, device=v.device), []
        random = draw.uniform(self.seed)
        for blocks, start, stop in self._pieces(v):
            largest = blocks.abs().amax(dim=-1, keepdim=True)  # 15 times as fast as the norm
            scales.append(_rounded_up(largest))
            inverse = (self.levels / scales[-1].to(blocks.dtype)).nan_to_num_(nan=math.nan, posinf=0.0)  # zeros stay
            t = blocks.mul_(inverse).flatten(-2)[..., : stop - start]
            t.add_(random.dither(stop - start).to(v.device)).add_(self.levels).clamp_(0, 2 * self.levels)
            # cuts off what is behind the point, and by way of int16 three times as fast
            codes[..., start:stop] = t.to(torch.int16).to(torch.uint8)
        return joined(torch.cat(scales, dim=-2).flatten(-2), squeezed(codes, self.bits))

    def unpack(self, wire: Tensor, m: int, dtype: torch.dtype) -> Tensor:
        scales, start = self._read_scales(wire, m), SCALE.itemsize * self._count(m)
        lead, dense = wire.shape[:-1], working(dtype)
        codes = torch.empty(*lead, self._count(m) * self.block, dtype=dense, device=wire.device)
        stretched(wire[..., start:], self.bits, m, codes)
        codes[..., m:] = 0
        return self._scaled(codes.sub_(self.levels), scales.to(dense) / self.levels, m, dtype)


def _rounded_up(largest: Tensor) -> Tensor:
    """In the precision that travels, and never below: a number above its scale would have no code."""
    scales = largest.to(SCALE)
    above = torch.nextafter(scales, torch.full_like(scales, math.inf))
    return torch.where(scales.to(largest.dtype) < largest, above, scales)


@dataclass(frozen=True)
class Sign(_Blocks):
    """One bit for every number: plus or minus the mean absolute value of its block."""

    block: int = 256
    name: ClassVar[str] = "sign"
    unbiased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._check_block()

    def bytes(self, m: int, element: int = 4) -> int:
        return SCALE.itemsize * self._count(m) + squeezed_length(m, 1)

    def variance(self, m: int) -> float:
        return 1 - 1 / min(m, self.block)

    def pack(self, v: Tensor, draw: Draw) -> Tensor:
        m = v.shape[-1]
        counts = torch.full((self._count(m),), float(self.block), device=v.device)
        counts[-1:] -= self._count(m) * self.block - m
        scales = torch.cat([blocks.abs_().sum(dim=-1) for blocks, _, _ in self._pieces(v)], dim=-1) / counts
        return joined(scales.to(SCALE), squeezed((v >= 0).view(torch.uint8), 1))

    def unpack(self, wire: Tensor, m: int, dtype: torch.dtype) -> Tensor:
        scales, start = self._read_scales(wire, m), SCALE.itemsize * self._count(m)
        codes = torch.empty(*wire.shape[:-1], self._count(m) * self.block, dtype=working(dtype), device=wire.device)
        stretched(wire[..., start:], 1, m, codes)
        codes[..., m:] = 0.5
        return self._scaled(codes.mul_(2).sub_(1), scales, m, dtype)
