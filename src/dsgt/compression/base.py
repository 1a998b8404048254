"""What a compressor is. Its random numbers are functions of (seed, node, round, stream), so that a real node draws what
the simulator draws for it, and resuming needs no generator's state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import ClassVar, Self

import torch
from torch import Tensor

from dsgt import randomness
from dsgt.compression.wires import check_length
from dsgt.core import Mix, Packed, WireError


@dataclass(frozen=True)
class Draw:
    """Random numbers of the nodes that live here, each node's from one generator for this round and stream."""

    rows: Tensor
    """The numbers of the nodes, (..., 1)."""
    k: int
    stream: int = 0

    def keys(self, seed: int) -> Tensor:
        """One of 63 bits for every node, (..., 1)."""
        return randomness.bits(seed, self.rows, self.k, self.stream)

    def uniform(self, seed: int) -> Uniform:
        return Uniform(self.keys(seed))


DITHERS = 4
"""Random numbers of 16 bits in one of 64."""


class Uniform:
    """Uniform numbers on [0, 1) for every key (..., 1), each from a generator that the key begins. Drawing them in
    pieces gives the same ones as drawing all at once."""

    def __init__(self, keys: Tensor) -> None:
        self._lead = keys.shape[:-1]
        self._generators = [torch.Generator().manual_seed(key) for key in keys.flatten().tolist()]

    def draw(self, m: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """The next m for every key, (..., m)."""
        drawn = torch.empty(len(self._generators), m, dtype=dtype)
        for generator, row in zip(self._generators, drawn, strict=True):
            row.uniform_(generator=generator)
        return drawn.view(*self._lead, m)

    def dither(self, m: int) -> Tensor:
        """The next m for every key, (..., m), as multiples of 2^-16 and half of one more: enough to round by, and three
        times as fast. In pieces only of multiples of ``DITHERS`` are they the same ones."""
        drawn = torch.empty(len(self._generators), -(-m // DITHERS), dtype=torch.int64)
        for generator, row in zip(self._generators, drawn, strict=True):
            row.random_(-(1 << 63), None, generator=generator)
        return drawn.view(torch.int16)[:, :m].float().add_(32768.5).mul_(2**-16).view(*self._lead, m)


class Compressor(ABC):
    """A frozen dataclass: what it keeps of a vector of m numbers, as a wire of bytes."""

    name: ClassVar[str]
    """As on the command line, where its fields follow, ``top-k:0.01``."""
    unbiased: ClassVar[bool]
    """Whether the mean over its random numbers is the vector itself."""

    @abstractmethod
    def bytes(self, m: int, element: int = 4) -> int:
        """How long the wire of m numbers of ``element`` bytes each is."""

    @abstractmethod
    def variance(self, m: int) -> float:
        """The largest E|C(v) - v|^2 / |v|^2 of any v of m numbers. Above 1 it may make an error larger."""

    def omega(self, m: int) -> float:
        """The contraction that is guaranteed: E|C(v) - v|^2 <= (1 - omega) |v|^2; 0 where there is none."""
        return max(0.0, 1.0 - self.variance(m))

    @abstractmethod
    def pack(self, v: Tensor, draw: Draw) -> Tensor:
        """(..., m) -> (..., bytes)."""

    @abstractmethod
    def unpack(self, wire: Tensor, m: int, dtype: torch.dtype) -> Tensor:
        """(..., bytes) -> (..., m) in memory of its own; a ``WireError`` where no finite vector was packed so."""

    def shaped(self, shapes: Sequence[tuple[int, ...]]) -> Self:
        """For vectors that hold parameters of these shapes."""
        return self

    def __call__(self, v: Tensor, mix: Mix, stream: int = 0) -> Packed:
        """``stream`` tells the vectors apart that a method sends in one round."""
        wire = self.pack(v, Draw(mix.rows, mix.k, stream))
        read = partial(self._read, m=v.shape[-1], dtype=v.dtype, device=v.device)
        try:
            value = read(wire)
        except WireError:  # the run has diverged, and its next gradient says so
            value = torch.full_like(v, torch.nan)
        return Packed(wire, read, value)

    def _read(self, wire: Tensor, m: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        check_length(wire, self.bytes(m, dtype.itemsize))
        return self.unpack(wire, m, dtype).to(device)

    def __str__(self) -> str:
        """What ``compression.compressor`` understands: the name, and its fields but the last that are by default."""
        values = [(getattr(self, f.name), f.default) for f in fields(self)]  # type: ignore[arg-type]
        while len(values) > 1 and values[-1][0] == values[-1][1]:
            values.pop()
        return ":".join([self.name, *(f"{value}" for value, _ in values)])
