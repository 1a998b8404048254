"""Numbers without their large part, which a receiver adds from a number of its own that is near."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dsgt import randomness
from dsgt.compression.base import Uniform
from dsgt.compression.wires import check_length, cut, joined, squeezed, squeezed_length, stretched

SUM = torch.int32


@dataclass(frozen=True)
class Modulo:
    """For numbers that differ by less than theta from those of who reads them."""

    theta: float
    bits: int

    def __post_init__(self) -> None:
        if self.bits not in (2, 4, 8):
            raise ValueError(
                f"bits is {self.bits}; expected 2, 4 or 8, which fill a byte and leave a difference to tell"
            )

    @property
    def period(self) -> float:
        return 2 * self.theta / (1 - 2.0 ** (1 - self.bits))

    def bytes(self, m: int) -> int:
        return SUM.itemsize + squeezed_length(m, self.bits)

    def pack(self, x: Tensor, k: int, seed: int) -> Tensor:
        """(..., m) -> (..., bytes). All nodes round by the same random numbers: then equal models stay equal."""
        u = Uniform(randomness.bits(seed, torch.tensor([k]))).draw(x.shape[-1]).to(x)
        part = x / self.period
        code = ((part - (part + 0.5).floor()) * 2**self.bits + u).floor() % 2**self.bits
        near = self._near(code, x)
        return joined(self._sum(near, code), squeezed(code.to(torch.uint8), self.bits))

    def read(self, wire: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """(..., bytes) -> the numbers nearest to x, (..., m), and whether they are those that were sent, (..., 1)."""
        m = x.shape[-1]
        check_length(wire, self.bytes(m))
        code = torch.empty(*wire.shape[:-1], m, dtype=x.dtype, device=x.device)
        stretched(wire[..., SUM.itemsize :], self.bits, m, code)
        near = self._near(code, x)
        return near, self._sum(near, code) == cut(wire, 0, 1, SUM)

    def _near(self, code: Tensor, x: Tensor) -> Tensor:
        off = code * (self.period / 2.0**self.bits) - x
        near: Tensor = off - self.period * (off / self.period + 0.5).floor() + x
        return near

    def _sum(self, near: Tensor, code: Tensor) -> Tensor:
        """Of how many periods were added to the codes, modulo 2^32."""
        periods: Tensor = (near / self.period - code / 2.0**self.bits).round()
        return periods.to(torch.int64).sum(dim=-1, keepdim=True).to(SUM)
