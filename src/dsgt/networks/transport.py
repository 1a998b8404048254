"""What moves the messages of one node: torch.distributed, MPI, or this process's own memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeAlias

import torch
from torch import Tensor


class Purpose(IntEnum):
    """What a message is for. No two purposes share a number."""

    MIXING = 0
    ANNOUNCEMENT = 1
    """Of what the mixing with the same count will hold."""
    GREETING = 2
    ROLL_CALL = 3

    def number(self, count: int) -> int:
        """Of the message with this count among those of its purpose."""
        return count * PURPOSES + self


PURPOSES = len(Purpose)
"""Messages of one purpose are numbered in steps of it."""


class WrongMessageError(RuntimeError):
    """Another message came than was expected."""


class Request(Protocol):
    """A message that a transport is moving."""

    def finish(self, timeout: float) -> None:
        """Return when it has been moved; raise RuntimeError or TimeoutError if it cannot be, or not in time."""


Requests: TypeAlias = dict[int, Request]
"""By neighbour."""


@dataclass(frozen=True)
class Failed(Request):
    """A message that could not even be begun."""

    error: RuntimeError

    def finish(self, timeout: float) -> None:
        raise self.error


@dataclass(frozen=True)
class Farewell:
    """What a node tells those who may still wait for it."""

    words: str
    """Begins with a verb: "has ended after 31 rounds"."""
    to: Sequence[int]
    mixing: int
    """The number of the last one that was sent."""
    greeting: int

    def has_sent(self, number: int) -> bool:
        """Whether that message has been sent. A node that has closed the network does not answer a roll call."""
        purpose = Purpose(number % PURPOSES)
        if purpose is Purpose.ROLL_CALL:
            return False
        last = self.greeting if purpose is Purpose.GREETING else self.mixing
        return number // PURPOSES <= last // PURPOSES


class Transport(ABC):
    """Connected when it is made. Every process of a job makes its transports in the same order."""

    node: int
    """The number of this process among those of the job."""
    size: int
    """How many processes the job has."""
    launcher: str
    """How to start a job of {n} processes."""
    device = torch.device("cpu")
    """Where messages must be that are not the user's."""
    threads = True
    """Whether two threads of this process may use it at once."""

    beside: int | None = None
    """How many processes the job has, where all of them run on this machine; None where not, or where nobody knows."""

    announces = True
    """Whether the first message of a kind must be announced, because messages carry neither length nor dtype."""
    error_ends_job = False
    """Whether an error at this node must end the whole job, because the others would wait for it for ever."""

    @abstractmethod
    def exchange(
        self, letters: Mapping[int, Tensor], into: Mapping[int, Tensor], number: int
    ) -> tuple[Requests, Requests]:
        """Start sending letters to some nodes and receiving from others into their buffers: the receiving and the
        sending requests. Only messages of one number and one length meet, or the receiving request fails. It never
        fails itself: a message that cannot be begun is a request that fails."""

    @abstractmethod
    def all_reduce(self, v: Tensor) -> Request:
        """Start replacing v by the sum of all nodes' v."""

    def abort(self, code: int = 1) -> None:  # noqa: B027 - most need not be told
        """No message can be expected any more: the process will end with this exit code."""

    def close(self, farewell: Farewell) -> None:  # noqa: B027 - not everybody can tell the others
        """No more messages will come from this node. May be called again."""

    def ended(self) -> dict[int, str]:
        """What is known of nodes that have closed this network: their last words."""
        return {}
