"""What moves the messages of one node: torch.distributed, MPI, or this process's own memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch import Tensor


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

    error_ends_job = False
    """Whether an error at this node must end the whole job, because the others would wait for it for ever."""

    @abstractmethod
    def exchange(
        self, v: Tensor, *, to: Iterable[int], into: Mapping[int, Tensor], number: int
    ) -> tuple[Requests, Requests]:
        """Start sending v to some nodes and receiving from others into their buffers: the receiving and the sending
        requests. Only messages of one number meet, so that none is taken for another. It never fails: a message that
        cannot be begun is a request that fails."""

    @abstractmethod
    def all_reduce(self, v: Tensor) -> Request:
        """Start replacing v by the sum of all nodes' v."""

    def abort(self, code: int = 1) -> None:  # noqa: B027 - most need not be told
        """No message can be expected any more: the process will end with this exit code."""

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """No more messages will come."""
