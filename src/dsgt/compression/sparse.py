"""Some of the numbers: the largest, or random ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dsgt.compression.base import Compressor, Draw, Uniform
from dsgt.compression.wires import cut, finite, joined
from dsgt.core import WireError

KEY = torch.int64


@dataclass(frozen=True)
class _Share(Compressor):
    """A share of the numbers, at least one."""

    share: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(
                f"share of {type(self).__name__} is {self.share}; expected a part of 1, above 0 and up to 1"
            )

    def kept(self, m: int) -> int:
        return max(1, round(self.share * m)) if m else 0


@dataclass(frozen=True)
class TopK(_Share):
    """The share of the numbers that is largest in absolute value, each with its place."""

    name: ClassVar[str] = "top-k"
    unbiased: ClassVar[bool] = False

    def bytes(self, m: int, element: int = 4) -> int:
        return self.kept(m) * (element + _place(m).itemsize)

    def variance(self, m: int) -> float:
        return 1 - self.kept(m) / m

    def pack(self, v: Tensor, draw: Draw) -> Tensor:
        places = v.abs().topk(self.kept(v.shape[-1]), dim=-1, sorted=False).indices
        return joined(v.gather(-1, places), places.to(_place(v.shape[-1])))

    def unpack(self, wire: Tensor, m: int, dtype: torch.dtype) -> Tensor:
        k = self.kept(m)
        values, places = finite(cut(wire, 0, k, dtype)), cut(wire, k * dtype.itemsize, k, _place(m)).long()
        if places.numel() and not (int(places.min()) >= 0 and int(places.max()) < m):
            raise WireError(f"a wire names places that a vector of {m} numbers does not have")
        return torch.zeros(*wire.shape[:-1], m, dtype=dtype, device=wire.device).scatter_(-1, places, values)


def _place(m: int) -> torch.dtype:
    return torch.int32 if m < 2**31 else torch.int64


@dataclass(frozen=True)
class RandK(_Share):
    """A random number out of each of k equal parts of the vector. Its places do not travel, but a key that they are
    drawn by.

    ``scaled``: multiplied by the length of its part, which makes it unbiased; else it is a contraction.
    """

    scaled: bool = True
    seed: int = 0
    name: ClassVar[str] = "rand-k"

    @property
    def unbiased(self) -> bool:  # type: ignore[override]
        return self.scaled

    def bytes(self, m: int, element: int = 4) -> int:
        return KEY.itemsize + self.kept(m) * element

    def variance(self, m: int) -> float:
        length = -(-m // self.kept(m))
        return length - 1.0 if self.scaled else 1 - 1 / length

    def pack(self, v: Tensor, draw: Draw) -> Tensor:
        keys = draw.keys(self.seed)
        return joined(keys.to(v.device), v.gather(-1, self._places(keys, v.shape[-1])[0].to(v.device)))

    def unpack(self, wire: Tensor, m: int, dtype: torch.dtype) -> Tensor:
        keys, values = cut(wire, 0, 1, KEY), finite(cut(wire, KEY.itemsize, self.kept(m), dtype))
        places, lengths = (t.to(wire.device) for t in self._places(keys.cpu() & (2**63 - 1), m))
        if self.scaled:
            values = finite(values * lengths)
        return torch.zeros(*wire.shape[:-1], m, dtype=dtype, device=wire.device).scatter_(-1, places, values)

    def _places(self, keys: Tensor, m: int) -> tuple[Tensor, Tensor]:
        """Where the numbers are, and how long their parts."""
        k = self.kept(m)
        begin = torch.arange(k + 1) * m // max(k, 1)
        lengths = begin.diff()
        within = (Uniform(keys).draw(k, torch.float64) * lengths).long()
        return begin[:-1] + torch.minimum(within, lengths - 1), lengths
