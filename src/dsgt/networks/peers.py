"""What the networks of one node per process share: neighbours, flights, and errors that name a neighbour."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dsgt.core import Matrix, Mix, Network, Pending
from dsgt.networks.background import Background
from dsgt.networks.buffers import LARGE, Buffers
from dsgt.topologies.matrix import MatrixLike, as_matrix, is_averaging, to_dense

TIMEOUT = 300.0
"""Seconds a node waits for a neighbour: longer than any gradient or evaluation is expected to take."""


GREETING = 0.1
"""The share of it that is kept for finding out who is missing from an all-reduce."""
ROLL_CALL = -1
"""The number of the messages that do it: those who have not come so far are already waited for under another."""


class NeighbourError(RuntimeError):
    """A neighbour did not answer."""

    def __init__(self, node: int, neighbour: int | None, timeout: float, reason: str) -> None:
        who = "the others" if neighbour is None else f"its neighbour, node {neighbour},"
        super().__init__(
            f"node {node} heard nothing from {who} for {timeout:g} s, or lost the connection: that process has died, "
            f"hangs, or waits for a neighbour of its own ({reason.strip() or 'no answer'})"
        )
        self.node, self.neighbour = node, neighbour


class Request(Protocol):
    """A message that a transport is moving."""

    def finish(self, timeout: float) -> None:
        """Return when it has been moved; raise RuntimeError or TimeoutError if it cannot be, or not in time."""


class Peers(Network, Mix):
    """One node per process; it talks to its neighbours only. A transport says how messages are moved."""

    _device = torch.device("cpu")
    """Where messages must be that are not the user's."""
    _threads = True
    """Whether the transport may be used by two threads at once."""

    def __init__(self, W: MatrixLike, *, node: int, world: int, launcher: str, timeout: float) -> None:
        super().__init__()
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}; give the seconds to wait for a neighbour, above 0")
        self.W = as_matrix(W)
        self.nodes, self.node, self.timeout = self.W.shape[0], node, timeout
        if self.nodes != world:
            raise ValueError(
                f"W joins {self.nodes} nodes, but this job has {world} process{'es' * (world != 1)}: start it with "
                f"{launcher.format(n=self.nodes)}, or give a W of size {world}"
            )
        self.own = float(self.W[node, node])
        row, column = to_dense(self.W[[node], :])[0], to_dense(self.W[:, [node]])[:, 0]
        self.hears = {int(j): float(row[j]) for j in np.flatnonzero(row) if j != node}
        """Whom this node hears, and the weight it gives to each."""
        self.tells = [int(i) for i in np.flatnonzero(column) if i != node]
        """Who hears this node."""
        self._averaging = is_averaging(self.W) and self.nodes > 1
        self._buffers = Buffers()
        self._background: Background | None = None
        self._flights: list[_Flight] = []
        self._broken = self._agreed = False
        self._sent = 0
        self._check_agreement()
        self._agreed = True

    @property
    def matrices(self) -> Sequence[Matrix]:
        return [self.W]

    def at(self, k: int) -> Mix:
        return self

    def start(self, v: Tensor) -> Pending:
        return self._beside(v, self._mixing(v))

    def start_flow(self, v: Tensor) -> Pending:
        return self._beside(v, self._flow(v))

    def __call__(self, v: Tensor) -> Tensor:
        return self._now(self._mixing(v))

    def flow(self, v: Tensor) -> Tensor:
        return self._now(self._flow(v))

    def _mixing(self, v: Tensor) -> _Flight:
        if self._averaging:
            self._count(2 * (self.nodes - 1) / self.nodes, v)
            return self._booked(_AllReduce(self, v))
        self._count(len(self.tells), v)
        return self._booked(_Exchange(self, v, flow=False))

    def _flow(self, v: Tensor) -> _Flight:
        self._count(len(self.tells), v)
        return self._booked(_Exchange(self, v, flow=True))

    def _booked(self, flight: _Flight) -> _Flight:
        self._flights.append(flight)
        return flight

    def _now(self, flight: _Flight) -> Tensor:
        flight.depart()
        return flight.wait()

    def _beside(self, v: Tensor, flight: _Flight) -> Pending:
        """Let the flight travel while the node computes. For a large one that is work: copying, weighting, adding up;
        and MPI moves it only while somebody asks for it. A small one is not worth waking a thread."""
        if self._threads and v.is_cpu and v.numel() >= LARGE and not self._averaging:
            self._background = self._background or Background()
            flight.travel_in(self._background)
        else:
            flight.depart()
        return flight

    def gather(self, v: Tensor) -> Tensor:
        """Every node must ask at once."""
        rows = v.new_zeros(self.nodes, *v.shape)
        rows[self.node] = v
        return self._sum(rows)

    def mean(self, v: Tensor) -> Tensor:
        """Every node must ask at once."""
        return self._sum(v.clone()).div_(self.nodes)

    def scratch(self, v: Tensor) -> Tensor:
        return self._buffers.like(v)

    def close(self) -> None:
        """Wait for every message in flight: one that is forgotten hangs gloo and corrupts MPI's heap."""
        while self._flights and not self._broken:
            self._flights[0].wait()

    @abstractmethod
    def exchange(
        self, v: Tensor, buffers: Mapping[int, Tensor], number: int
    ) -> tuple[dict[int, Request], dict[int, Request]]:
        """Start sending v to all of ``tells`` and receiving from all of ``hears`` into their buffers: the receiving
        and the sending requests by neighbour. Only messages of one number meet, so that none is taken for another."""

    @abstractmethod
    def _all_reduce(self, v: Tensor) -> Request:
        """Start replacing v by the sum of all nodes' v."""

    def finish(self, request: Request, neighbour: int) -> None:
        """Wait for a message, or say who did not send it. After that the network is of no use."""
        with self.naming(neighbour):
            request.finish(self.timeout)

    def finish_sum(self, request: Request) -> None:
        """Wait for an all-reduce. Nobody can tell who is missing in one; so where it fails, the neighbours greet each
        other in the time that is left, and who does not answer is named."""
        try:
            request.finish((1 - GREETING) * self.timeout)
        except (RuntimeError, TimeoutError):
            self._greet(GREETING * self.timeout, ROLL_CALL)
            with self.naming(None):
                raise

    @contextmanager
    def naming(self, neighbour: int | None) -> Iterator[None]:
        """A transport that fails says to whom."""
        try:
            yield
        except (RuntimeError, TimeoutError) as error:
            self._break()
            assert self.node is not None
            raise NeighbourError(self.node, neighbour, self.timeout, str(error)) from error

    def next_number(self) -> int:
        self._sent += 1
        return self._sent

    def landed(self, flight: _Flight) -> None:
        self._flights.remove(flight)

    def _break(self) -> None:
        """No message can be expected any more; forget those in flight."""
        self._broken = True

    def _count(self, vectors: float, v: Tensor) -> None:
        self.traffic.mixings += 1
        self.traffic.bytes += round(vectors * v.numel() * v.element_size())

    def _sum(self, v: Tensor) -> Tensor:
        if self._agreed and not self._averaging:  # whoever hangs already is named here, and not missed in the sum
            self._greet(self.timeout, self.next_number())
        self.finish_sum(self.begin_sum(v))
        return v

    def begin_sum(self, v: Tensor) -> Request:
        with self.naming(None):
            return self._all_reduce(v)

    def _greet(self, timeout: float, number: int) -> None:
        """Exchange an empty message with the neighbours."""
        hello = torch.zeros(1, device=self._device)
        receiving, sending = self.exchange(hello, {j: torch.empty_like(hello) for j in self.hears}, number)
        for j, request in [*receiving.items(), *sending.items()]:
            with self.naming(j):
                request.finish(timeout)

    def _check_agreement(self) -> None:
        """Different weights at different nodes are a silent error, so compare fingerprints first."""
        digest = hashlib.sha256(np.ascontiguousarray(to_dense(self.W)).tobytes()).digest()[:6]  # exact in a float64
        mine = torch.tensor([float(int.from_bytes(digest, "big"))], dtype=torch.float64)
        prints = self.gather(mine)[:, 0]
        different = (prints != prints[0]).nonzero().flatten().tolist()
        if different:
            raise ValueError(
                f"nodes 0 and {different[0]} were given different W; build it from the same arguments and seed"
            )


class _Flight(Pending):
    """A mixing. Once it has departed, the first ``wait`` lands it; or it travels in the background."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._value: Tensor | None = None
        self._landing: Future[Tensor] | None = None

    def travel_in(self, background: Background) -> None:
        """Depart and land there."""
        self._landing = background.begin(self._travel)

    def _travel(self) -> Tensor:
        self.depart()
        return self._land()

    @abstractmethod
    def depart(self) -> None:
        """Begin to send and to receive."""

    def wait(self) -> Tensor:
        if self._value is None:
            self._value = self._land() if self._landing is None else self._landing.result()
            self._landing = None
            self._peers.landed(self)
        return self._value

    @abstractmethod
    def _land(self) -> Tensor: ...


class _AllReduce(_Flight):
    """The sum of all nodes' v, in a copy of it, and then their mean."""

    def __init__(self, peers: Peers, v: Tensor) -> None:
        super().__init__(peers)
        self._total = peers.scratch(v).copy_(v)
        self._request: Request | None = None

    def depart(self) -> None:
        self._request = self._peers.begin_sum(self._total)

    def _land(self) -> Tensor:
        assert self._request is not None
        self._peers.finish_sum(self._request)
        return self._total.div_(self._peers.nodes)


class _Exchange(_Flight):
    """v goes to the neighbours and theirs come into one buffer each; the first buffer becomes the result."""

    def __init__(self, peers: Peers, v: Tensor, *, flow: bool) -> None:
        super().__init__(peers)
        self._v: Tensor | None = v.contiguous()
        self._flow = flow
        self._buffers = {j: peers.scratch(self._v) for j in peers.hears}
        self._number = peers.next_number()
        self._receiving: dict[int, Request] = {}
        self._sending: dict[int, Request] = {}

    def depart(self) -> None:
        assert self._v is not None
        self._receiving, self._sending = self._peers.exchange(self._v, self._buffers, self._number)

    def _land(self) -> Tensor:
        peers, v = self._peers, self._v
        assert v is not None
        result = None
        for j, weight in peers.hears.items():
            peers.finish(self._receiving.pop(j), j)  # a finished request must not keep its buffer alive
            heard = self._buffers.pop(j)
            if self._flow:
                heard.sub_(v)  # W[i, j] (v_j - v_i)
            if result is None:
                result = heard.mul_(weight)
            else:
                result.add_(heard, alpha=weight)
        if result is None:
            result = torch.zeros_like(v)
        if not self._flow:
            result.add_(v, alpha=peers.own)
        for i in peers.tells:
            peers.finish(self._sending.pop(i), i)
        self._v = None
        return result
