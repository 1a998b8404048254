"""Nodes that are threads of one process: real peers, flights and errors, with neither a launcher nor a socket.

For tests, and for trying out code that is written for one node.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from dsgt.networks.neighbours import NeighbourError
from dsgt.networks.peers import TIMEOUT, Peers
from dsgt.networks.transport import Request, Requests, Transport
from dsgt.topologies.matrix import MatrixLike, as_matrix

Result = TypeVar("Result")
LOOK_EVERY = 0.05
"""Seconds between two looks whether another node has failed."""
Mailbox = queue.SimpleQueue[Tensor]


class Switchboard:
    """What the threads share: a mailbox for every (from, to, number)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.everyone = threading.Barrier(size)
        self._lock = threading.Lock()
        self._mailboxes: dict[tuple[int, int, int], Mailbox] = defaultdict(queue.SimpleQueue)
        self.rows: list[Tensor] = [torch.empty(0)] * size

    def mailbox(self, source: int, target: int, number: int) -> Mailbox:
        with self._lock:
            return self._mailboxes[source, target, number]

    def forget(self, source: int, target: int, number: int) -> None:
        with self._lock:
            del self._mailboxes[source, target, number]


@dataclass(frozen=True)
class _Sent(Request):
    def finish(self, timeout: float) -> None:
        pass


@dataclass(frozen=True)
class _Received(Request):
    switchboard: Switchboard
    address: tuple[int, int, int]
    buffer: Tensor

    def finish(self, timeout: float) -> None:
        message = self._message(time.monotonic() + timeout)
        self.switchboard.forget(*self.address)
        if message.shape != self.buffer.shape or message.dtype != self.buffer.dtype:
            raise RuntimeError(
                f"a message of {tuple(message.shape)} {message.dtype} came, but {tuple(self.buffer.shape)} "
                f"{self.buffer.dtype} was expected"
            )
        self.buffer.copy_(message)

    def _message(self, end: float) -> Tensor:
        mailbox = self.switchboard.mailbox(*self.address)
        while not self.switchboard.everyone.broken and time.monotonic() < end:
            with suppress(queue.Empty):
                return mailbox.get(timeout=min(LOOK_EVERY, max(end - time.monotonic(), 0)))
        raise TimeoutError("another node has failed" if self.switchboard.everyone.broken else "timed out")


@dataclass(frozen=True)
class _Sum(Request):
    switchboard: Switchboard
    node: int
    v: Tensor

    def finish(self, timeout: float) -> None:
        board = self.switchboard
        try:
            board.everyone.wait(timeout)
            board.rows[self.node] = self.v.clone()
            board.everyone.wait(timeout)
            self.v.copy_(torch.stack(board.rows).sum(dim=0))
            board.everyone.wait(timeout)  # nobody writes a row that another still reads
        except threading.BrokenBarrierError:
            raise TimeoutError("timed out") from None


class MemoryTransport(Transport):
    launcher = "networks.in_threads(W of size {n}, act)"
    error_ends_job = True

    def __init__(self, switchboard: Switchboard, node: int) -> None:
        self._switchboard, self.node, self.size = switchboard, node, switchboard.size

    def exchange(
        self, v: Tensor, *, to: Iterable[int], into: Mapping[int, Tensor], number: int
    ) -> tuple[Requests, Requests]:
        for i in to:
            self._switchboard.mailbox(self.node, i, number).put(v.detach().clone())
        receiving: Requests = {
            j: _Received(self._switchboard, (j, self.node, number), buffer) for j, buffer in into.items()
        }
        return receiving, {i: _Sent() for i in to}

    def all_reduce(self, v: Tensor) -> Request:
        return _Sum(self._switchboard, self.node, v)

    def abort(self, code: int = 1) -> None:
        self._switchboard.everyone.abort()


def in_threads(W: MatrixLike, act: Callable[[Peers], Result], *, timeout: float = TIMEOUT) -> list[Result]:
    """Call ``act(network)`` for every node of W, each in a thread of its own: what they return, in order.

    An error at one node is raised here when all have ended; the others end with a ``NeighbourError`` when they miss it.
    """
    matrix = as_matrix(W)
    switchboard = Switchboard(matrix.shape[0])

    def be(node: int) -> Result:
        transport = MemoryTransport(switchboard, node)
        with Peers(matrix, transport, timeout=timeout) as network:
            return act(network)

    with ThreadPoolExecutor(switchboard.size) as pool:
        futures = [pool.submit(be, node) for node in range(switchboard.size)]
        errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, NeighbourError))  # the cause, not its echo
    return [future.result() for future in futures]
