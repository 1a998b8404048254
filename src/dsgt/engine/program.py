"""A round as a list of instructions over numbered vectors, which compiler.py makes from a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from dsgt.buffers import Buffers
from dsgt.core import Mix, Pending
from dsgt.engine.trace import Mixed
from dsgt.networks.dense import Simulated
from dsgt.networks.peers import PeersMix


@dataclass(frozen=True)
class PartialSum:
    """The part of a sum that can be computed before the gradient is known: a message, and multiples of other fields."""

    message: int
    """Its field in the state."""
    others: tuple[tuple[float, int], ...]
    """Factors, and fields of the state."""

    def add_up(self, arrived: Tensor, others: Sequence[Tensor], out: Tensor) -> Tensor:
        for (c, _), other in zip(self.others, others, strict=True):
            arrived = torch.add(arrived, other, alpha=c, out=out)
        return out


class Vectors:
    """The vectors of a round by number, and what else its instructions need."""

    def __init__(
        self,
        given: Sequence[Tensor],
        before: tuple[Any, ...],
        mix: Mix,
        memory: Buffers,
        prepared: Mapping[PartialSum, Future[Tensor]],
    ) -> None:
        self.at: dict[int, Tensor] = dict(enumerate(given))
        self.before, self.mix, self.memory, self.prepared = before, mix, memory, prepared
        self.sent: dict[Mixed, Pending] = {}

    @property
    def simulated(self) -> Simulated:
        assert isinstance(self.mix, Simulated)
        return self.mix

    @property
    def peers(self) -> PeersMix:
        assert isinstance(self.mix, PeersMix)
        return self.mix

    def scratch(self) -> Tensor:
        return self.memory.scratch(self.at[0])


Step: TypeAlias = Callable[[Vectors], Any]


@dataclass(frozen=True)
class Program:
    steps: Sequence[Step]
    results: Sequence[Callable[[Vectors], Tensor | Pending]]
    ahead: Sequence[PartialSum]
    """What the next round will need, for a background thread to add up during the next gradient."""

    def run(self, vectors: Vectors) -> list[Tensor | Pending]:
        """The fields of the state after the round."""
        for step in self.steps:
            step(vectors)
        return [result(vectors) for result in self.results]
