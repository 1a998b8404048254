"""What travels: a mixing on its way, and a vector in fewer bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor


class Pending(ABC):
    """A mixing on its way through the network."""

    @abstractmethod
    def wait(self) -> Tensor:
        """What arrived. May be called again."""

    def peek(self) -> Tensor:
        """What arrives, for somebody who looks at a run from outside: no node's clock goes on."""
        return self.wait()


@dataclass(frozen=True)
class Done(Pending):
    """A mixing that has arrived."""

    value: Tensor

    def wait(self) -> Tensor:
        return self.value


class WireError(RuntimeError):
    """A message that no node can have sent: damaged on its way, or made of numbers that are not finite."""


@dataclass(frozen=True, eq=False)
class Packed:
    """A vector in fewer bytes: ``wire`` travels, and everyone who hears it reads ``unpack(wire)``.

    A mixing takes it where it takes a tensor, and mixes what the neighbours read."""

    wire: Tensor
    """(..., bytes), equally long at every node."""
    unpack: Callable[[Tensor], Tensor]
    """Gives memory of its own, which a receiver may write into; a ``WireError`` where the wire cannot be."""
    value: Tensor
    """What it gives for the node's own wire, bit for bit; NaN where a node has sent what nobody can read."""


Sendable: TypeAlias = "Tensor | Packed"


def wire_of(v: Sendable) -> Tensor:
    """What travels."""
    return v.wire if isinstance(v, Packed) else v


def value_of(v: Sendable) -> Tensor:
    """What is read where it arrives."""
    return v.value if isinstance(v, Packed) else v
