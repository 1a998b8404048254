"""What the networks of one node per process share: neighbours, flights, and errors that name a neighbour."""

from __future__ import annotations

import hashlib
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType

import numpy as np
import torch
from torch import Tensor

from dsgt.buffers import Buffers
from dsgt.core import Matrix, Mix, Network, Pending
from dsgt.networks.background import Background
from dsgt.networks.flights import AllReduce, Exchange, Flight, Request
from dsgt.topologies.matrix import MatrixLike, as_matrix, is_averaging, to_dense

TIMEOUT = 300.0
"""Seconds a node waits for a neighbour: longer than any gradient or evaluation is expected to take. For a large message
that travels while the node computes they run from its departure."""
BESIDE = 1 << 15
"""Numbers in a message from which on moving it is worth waking a thread (benchmarks/peers.py)."""
GREETING = 0.1
"""The share of it that is kept for finding out who is missing from an all-reduce."""
ROLL_CALL = -1
"""The first number, downwards, of the messages that do it: who has not come so far is waited for under another."""


class NeighbourError(RuntimeError):
    """A neighbour did not answer."""

    def __init__(self, node: int, neighbour: int | None, timeout: float, reason: str) -> None:
        who = "the others" if neighbour is None else f"its neighbour, node {neighbour},"
        super().__init__(
            f"node {node} heard nothing from {who} for {timeout:g} s, or lost the connection: that process has died, "
            f"hangs, or waits for a neighbour of its own ({reason.strip() or 'no answer'})"
        )
        self.node, self.neighbour = node, neighbour


class _Naming:
    """A transport that fails in here says to whom. Every message passes, so this is no generator, which is slower."""

    def __init__(self, peers: Peers, neighbour: int | None) -> None:
        self._peers, self._neighbour = peers, neighbour

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, RuntimeError | TimeoutError):
            raise self._peers.lost(self._neighbour, str(error)) from error


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
        self.buffers = Buffers()
        """Where messages are received."""
        self._background: Background | None = None
        self._flights: list[Flight] = []
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

    def into(self, v: Tensor, out: Tensor) -> Tensor:
        """``self(v)`` in the memory of ``out``, which keeps what it holds until everything has arrived."""
        return self._now(self._mixing(v, out))

    def _mixing(self, v: Tensor, out: Tensor | None = None) -> Flight:
        if self._averaging:
            self._count(2 * (self.nodes - 1) / self.nodes, v)
            return AllReduce(self, v, out)
        self._count(len(self.tells), v)
        return Exchange(self, v, out=out)

    def _flow(self, v: Tensor) -> Flight:
        self._count(len(self.tells), v)
        return Exchange(self, v, flow=True)

    def _now(self, flight: Flight) -> Tensor:
        flight.depart()
        self._flights.append(flight)
        return flight.wait()

    def _beside(self, v: Tensor, flight: Flight) -> Pending:
        """Let the flight travel while the node computes. For a large one that is work: copying, weighting, adding up;
        and MPI moves it only while somebody asks for it. A small one is not worth waking a thread."""
        if self._threads and v.is_cpu and v.numel() >= BESIDE and not self._averaging:
            self._background = self._background or Background()
            flight.travel_in(self._background)
        else:
            flight.depart()
        self._flights.append(flight)
        return flight

    def gather(self, v: Tensor) -> Tensor:
        """Every node must ask at once."""
        rows = v.new_zeros(self.nodes, *v.shape)
        rows[self.node] = v
        return self._sum(rows)

    def mean(self, v: Tensor) -> Tensor:
        """Every node must ask at once."""
        return self._sum(v.clone()).div_(self.nodes)

    def close(self) -> None:
        """Wait for every message in flight: one that is forgotten hangs gloo and corrupts MPI's heap."""
        while self._flights and not self._broken:
            self._flights[0].wait()
        if self._background is not None and not self._broken:
            self._background.close()
            self._background = None

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
        """Wait for a message, or say who did not send it."""
        with self.naming(neighbour):
            request.finish(self.timeout)

    def finish_sum(self, request: Request) -> None:
        """Wait for an all-reduce. Nobody can tell who is missing in one; so where it fails, the neighbours greet each
        other in the time that is left, and who does not answer is named. Who waits for an answer does not greet again,
        and so is named by those who are further away."""
        try:
            request.finish((1 - GREETING) * self.timeout)
        except (RuntimeError, TimeoutError):
            end = time.monotonic() + GREETING * self.timeout
            for distance in range(self.nodes - 1):
                self._greet(max(end - time.monotonic(), 0.01), ROLL_CALL - distance)
            with self.naming(None):
                raise

    def naming(self, neighbour: int | None) -> _Naming:
        return _Naming(self, neighbour)

    def lost(self, neighbour: int | None, reason: str) -> NeighbourError:
        """After that the network is of no use."""
        self._break()
        assert self.node is not None
        return NeighbourError(self.node, neighbour, self.timeout, reason)

    def next_number(self) -> int:
        self._sent += 1
        return self._sent

    def landed(self, flight: Flight) -> None:
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
