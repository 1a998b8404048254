"""Nodes that are threads of one process: real peers, flights and errors, with neither a launcher nor a socket.

For tests, and for trying out code that is written for one node.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from dsgt.core import Weights
from dsgt.networks.neighbours import NeighbourError
from dsgt.networks.peers import TIMEOUT, Peers
from dsgt.networks.transport import Farewell, Request, Requests, Transport, WrongMessageError
from dsgt.topologies.changing import as_weights
from dsgt.topologies.matrix import MatrixLike

Result = TypeVar("Result")
Address = tuple[int, int, int]
"""Source, target, and the number of the message; that of the k-th all-reduce is -k."""


class Switchboard:
    """What the threads share: messages that nobody has received yet, and what became of the nodes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.ended: dict[int, str] = {}
        self._failed = False
        self._messages: dict[Address, Tensor] = {}
        lock = threading.Lock()
        self._news = [threading.Condition(lock) for _ in range(size)]
        """For every node."""

    def put(self, address: Address, message: Tensor) -> None:
        with self._news[address[1]]:
            self._messages[address] = message
            self._news[address[1]].notify_all()

    def take(self, address: Address, timeout: float) -> Tensor:
        """A message; an error as soon as it is known that it will not come."""
        source, target, _ = address
        with self._news[target]:
            self._news[target].wait_for(
                lambda: address in self._messages or self._failed or source in self.ended, timeout
            )
            if address in self._messages:
                return self._messages.pop(address)
            ended = source in self.ended
            raise TimeoutError(
                "no more messages" if ended else "another node has failed" if self._failed else "timed out"
            )

    def end(self, node: int, words: str | None) -> None:
        """This node sends nothing any more; None: because it has failed."""
        for news in self._news:
            with news:
                if words is None:
                    self._failed = True
                else:
                    self.ended[node] = words
                news.notify_all()


@dataclass(frozen=True)
class _Sent(Request):
    def finish(self, timeout: float) -> None:
        pass


@dataclass(frozen=True)
class _Received(Request):
    switchboard: Switchboard
    address: Address
    buffer: Tensor

    def finish(self, timeout: float) -> None:
        message = self.switchboard.take(self.address, timeout)
        if message.shape != self.buffer.shape or message.dtype != self.buffer.dtype:
            raise WrongMessageError(
                f"a message of {tuple(message.shape)} {message.dtype} came, but {tuple(self.buffer.shape)} "
                f"{self.buffer.dtype} was expected"
            )
        self.buffer.copy_(message)


@dataclass(frozen=True)
class _Sum(Request):
    rows: tuple[Tensor, ...]
    others: tuple[Request, ...]
    """Those that fill the other nodes' rows."""
    v: Tensor

    def finish(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        for other in self.others:
            other.finish(max(end - time.monotonic(), 0))
        self.v.copy_(torch.stack(self.rows).sum(dim=0))


class MemoryTransport(Transport):
    launcher = "networks.in_threads(W of size {n}, act)"
    error_ends_job = True

    def __init__(self, switchboard: Switchboard, node: int) -> None:
        self._switchboard, self.node, self.size = switchboard, node, switchboard.size
        self._sums = 0

    def exchange(
        self, letters: Mapping[int, Tensor], into: Mapping[int, Tensor], number: int
    ) -> tuple[Requests, Requests]:
        for i, letter in letters.items():
            self._switchboard.put((self.node, i, number), letter.detach().clone())
        receiving: Requests = {
            j: _Received(self._switchboard, (j, self.node, number), buffer) for j, buffer in into.items()
        }
        return receiving, {i: _Sent() for i in letters}

    def all_reduce(self, v: Tensor) -> Request:
        """Everybody tells everybody."""
        self._sums += 1
        rows = {i: torch.empty_like(v) for i in range(self.size)}
        others = {i: row for i, row in rows.items() if i != self.node}
        receiving, _ = self.exchange(dict.fromkeys(others, v), others, -self._sums)
        rows[self.node].copy_(v)
        return _Sum(tuple(rows.values()), tuple(receiving.values()), v)

    def abort(self, code: int = 1) -> None:
        self._switchboard.end(self.node, None)

    def close(self, farewell: Farewell) -> None:
        self._switchboard.end(self.node, farewell.words)

    def ended(self) -> dict[int, str]:
        return dict(self._switchboard.ended)


def in_threads(W: MatrixLike | Weights, act: Callable[[Peers], Result], *, timeout: float = TIMEOUT) -> list[Result]:
    """Call ``act(network)`` for every node of W, each in a thread of its own: what they return, in order.

    An error at one node is raised here when all have ended; the others end with a ``NeighbourError`` when they miss it.
    """
    weights = as_weights(W)
    switchboard = Switchboard(weights.nodes)

    def be(node: int) -> Result:
        transport = MemoryTransport(switchboard, node)
        with Peers(weights, transport, timeout=timeout) as network:
            return act(network)

    with ThreadPoolExecutor(switchboard.size) as pool:
        futures = [pool.submit(be, node) for node in range(switchboard.size)]
        errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, NeighbourError))  # the cause, not its echo
    return [future.result() for future in futures]
