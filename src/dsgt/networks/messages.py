"""What a message holds: how many numbers of which dtype. Nodes that do not run the same thing differ there first."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dsgt.networks.transport import Request, WrongMessageError

_NAMES = {zlib.crc32(str(d).encode()): str(d) for d in vars(torch).values() if isinstance(d, torch.dtype)}


class Kind(NamedTuple):
    """All messages of a mixing must be of one kind."""

    length: int
    dtype: int
    """A hash of its name: numbers can be sent."""

    @staticmethod
    def of(v: Tensor) -> Kind:
        return Kind(v.numel(), zlib.crc32(str(v.dtype).encode()))

    def tensor(self, device: torch.device) -> Tensor:
        return torch.tensor(self, dtype=torch.int64, device=device)

    def __str__(self) -> str:
        return f"{self.length} number{'s' * (self.length != 1)} of {_NAMES.get(self.dtype, 'an unknown dtype')}"


@dataclass(frozen=True)
class SameKind(Request):
    """Refuses what was announced, once that has arrived, if it is not what is expected."""

    announced: Tensor
    expected: Kind

    def finish(self, timeout: float) -> None:
        if (announced := Kind(*self.announced.tolist())) != self.expected:
            raise WrongMessageError(f"it sends {announced}, this node {self.expected}")


@dataclass(frozen=True)
class InOrder(Request):
    """The first that fails is the last that is waited for."""

    requests: tuple[Request, ...]

    def finish(self, timeout: float) -> None:
        for request in self.requests:
            request.finish(timeout)
