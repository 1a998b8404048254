"""A round as instructions over numbered vectors, which writing.py makes of its formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from dsgt.core import Mix, Pending
from dsgt.networks.dense import Dense
from dsgt.networks.formulas import Mixed


class Memory(Protocol):
    """Hands out uninitialised tensors, and knows them again: a network, or buffers of one's own."""

    def scratch(self, v: Tensor) -> Tensor: ...

    def lent(self, v: Tensor) -> bool: ...


@dataclass(frozen=True)
class Ahead:
    """What of a sum is known before the gradient is: a message, as soon as it has arrived, and multiples of others."""

    message: int
    """The field of the state that it is."""
    others: tuple[tuple[float, int], ...]
    """Fields too."""

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
        memory: Memory,
        prepared: Mapping[Ahead, Future[Tensor]],
    ) -> None:
        self.at: dict[int, Tensor] = dict(enumerate(given))
        self.before, self.mix, self.memory, self.prepared = before, mix, memory, prepared
        self.sent: dict[Mixed, Pending] = {}

    @property
    def dense(self) -> Dense:
        assert isinstance(self.mix, Dense)
        return self.mix

    def scratch(self) -> Tensor:
        return self.memory.scratch(self.at[0])


Step: TypeAlias = Callable[[Vectors], Any]


@dataclass(frozen=True)
class Program:
    steps: Sequence[Step]
    results: Sequence[Callable[[Vectors], Tensor | Pending]]
    ahead: Sequence[Ahead]
    """What the next round of this kind will need, if somebody has the time."""

    def run(self, vectors: Vectors) -> list[Tensor | Pending]:
        """The fields of the state after the round."""
        for step in self.steps:
            step(vectors)
        return [result(vectors) for result in self.results]
