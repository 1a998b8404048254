"""A node's neighbours: whom it hears, who hears it, and errors that name the one who did not answer."""

from __future__ import annotations

import time
from types import TracebackType

import numpy as np
import torch
from torch import Tensor

from dsgt.buffers import Buffers
from dsgt.core import Matrix
from dsgt.networks.transport import Request, Requests, Transport
from dsgt.topologies.matrix import to_dense

ROLL_CALL_SHARE = 0.1
"""The share of the timeout that is kept for finding out who is missing from an all-reduce."""
ROLL_CALL = -1
"""Roll-call messages are numbered -1, -2, ..., one number per hop, so that a late node's message is never taken for
that of another hop."""


class NeighbourError(RuntimeError):
    """A neighbour did not answer."""

    def __init__(self, node: int, neighbour: int | None, timeout: float, reason: str) -> None:
        who = "the others" if neighbour is None else f"its neighbour, node {neighbour},"
        super().__init__(
            f"node {node} heard nothing from {who} for {timeout:g} s, or lost the connection: that process has died, "
            f"hangs, or waits for a neighbour of its own ({reason.strip() or 'no answer'})"
        )
        self.node, self.neighbour = node, neighbour


class Neighbours:
    """The row and the column of W that concern this node, and the transport that reaches those in them."""

    def __init__(self, W: Matrix, transport: Transport, timeout: float) -> None:
        self.transport, self.timeout = transport, timeout
        self.node, self.nodes = transport.node, W.shape[0]
        row, column = to_dense(W[[self.node], :])[0], to_dense(W[:, [self.node]])[:, 0]
        self.own = float(row[self.node])
        self.hears = {int(j): float(row[j]) for j in np.flatnonzero(row) if j != self.node}
        """Whom this node hears, and the weight it gives to each."""
        self.tells = [int(i) for i in np.flatnonzero(column) if i != self.node]
        """Who hears this node."""
        self.buffers = Buffers()
        """Where messages are received."""
        self.broken = False
        """Whether a neighbour was lost: no message can be expected any more."""
        self._sent = 0

    def next_number(self) -> int:
        self._sent += 1
        return self._sent

    def exchange(self, v: Tensor, into: dict[int, Tensor], number: int) -> tuple[Requests, Requests]:
        return self.transport.exchange(v, to=self.tells, into=into, number=number)

    def finish(self, request: Request, neighbour: int) -> None:
        """Wait for a message, or say who did not send it."""
        with self._naming(neighbour):
            request.finish(self.timeout)

    def begin_sum(self, v: Tensor) -> Request:
        with self._naming(None):
            return self.transport.all_reduce(v)

    def finish_sum(self, request: Request) -> None:
        """Wait for an all-reduce. A failed all-reduce does not tell who is missing, so the neighbours then greet each
        other in the time that is left, and the one who does not answer is named. A node still waiting for a greeting
        sends no further ones, so nodes farther from the missing one name their neighbour on the path to it."""
        try:
            request.finish((1 - ROLL_CALL_SHARE) * self.timeout)
        except (RuntimeError, TimeoutError):
            end = time.monotonic() + ROLL_CALL_SHARE * self.timeout
            for hop in range(self.nodes - 1):
                self.greet(max(end - time.monotonic(), 0.01), ROLL_CALL - hop)
            with self._naming(None):
                raise

    def greet(self, timeout: float, number: int) -> None:
        """Exchange an empty message with the neighbours."""
        hello = torch.zeros(1, device=self.transport.device)
        receiving, sending = self.exchange(hello, {j: torch.empty_like(hello) for j in self.hears}, number)
        for j, request in [*receiving.items(), *sending.items()]:
            with self._naming(j):
                request.finish(timeout)

    def lost(self, neighbour: int | None, reason: str) -> NeighbourError:
        """The error to raise; after it the network is of no use."""
        self.abort()
        return NeighbourError(self.node, neighbour, self.timeout, reason)

    def abort(self, code: int = 1) -> None:
        if not self.broken:
            self.transport.abort(code)
        self.broken = True

    def _naming(self, neighbour: int | None) -> _Naming:
        return _Naming(self, neighbour)


class _Naming:
    """Turns an error of the transport into one that names the neighbour. Every message passes through here, and a class
    is faster than a generator."""

    def __init__(self, neighbours: Neighbours, neighbour: int | None) -> None:
        self._neighbours, self._neighbour = neighbours, neighbour

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, RuntimeError | TimeoutError) and not isinstance(error, NeighbourError):
            raise self._neighbours.lost(self._neighbour, str(error)) from error
