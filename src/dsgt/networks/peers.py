"""One node per process: it talks to its neighbours only, over any transport."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import final

import numpy as np
import torch
from torch import Tensor

from dsgt.buffers import Buffers
from dsgt.core import Mix, Network, Packed, Pending, Sendable, Weights, value_of, wire_of
from dsgt.networks.background import Background
from dsgt.networks.flights import AllReduce, Exchange, Flight, LetterExchange
from dsgt.networks.neighbours import Neighbours
from dsgt.networks.products import PerMatrix
from dsgt.networks.row import Row
from dsgt.networks.transport import Transport
from dsgt.threads import cores
from dsgt.topologies.changing import as_weights
from dsgt.topologies.matrix import MatrixLike, to_dense

TIMEOUT = 300.0
"""Seconds a node waits for a neighbour: longer than any gradient or evaluation is expected to take. For a large message
that travels while the node computes they run from its departure."""
BACKGROUND_FROM = 1 << 15
"""Numbers in a message from which on moving it is worth waking a thread (benchmarks/peers.py)."""


def is_hidden(transport: Transport) -> bool:
    """Whether a message can travel beside a computation. Between machines it can. On one machine the cores that compute
    move it too, and where none of them is idle a thread more only makes a step longer (benchmarks/links.py)."""
    return transport.beside is None or transport.beside * torch.get_num_threads() < cores()


@final
class Peers(Network):
    """The node of this process; the transport says how its messages are moved. One transport serves all matrices."""

    def __init__(self, W: MatrixLike | Weights, transport: Transport, *, timeout: float = TIMEOUT) -> None:
        super().__init__()
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}; give the seconds to wait for a neighbour, above 0")
        self.weights = as_weights(W)
        self.nodes, self.node = self.weights.nodes, transport.node
        if self.nodes != transport.size:
            raise ValueError(
                f"W joins {self.nodes} nodes, but this job has {transport.size} process{'es' * (transport.size != 1)}: "
                f"start it with {transport.launcher.format(n=self.nodes)}, or give a W of size {transport.size}"
            )
        self._row = PerMatrix(partial(Row.of, node=transport.node))
        self._transport = transport
        self._neighbours = Neighbours(self._rows(self.weights), transport, timeout)
        self._background: Background | None = None
        self._in_flight: list[Flight] = []
        self._rounds = 0
        self._fate = "has ended"
        self._closed = False
        self._check_agreement()

    @property
    def timeout(self) -> float:
        return self._neighbours.timeout

    @property
    def hears(self) -> list[int]:
        """All whom this node hears in some round."""
        return sorted(self._neighbours.hears)

    @property
    def buffers(self) -> Buffers:
        """Where messages are received."""
        return self._neighbours.buffers

    def round(self, k: int, weights: Weights) -> PeersMix:
        return PeersMix(self, weights, k, self._row(weights.at(k)))

    def at(self, k: int) -> Mix:
        self.computed(k)
        return super().at(k)

    def computed(self, k: int, gradients: float | Tensor = 1.0) -> None:
        self._rounds = k + 1

    def over(self, weights: Weights) -> Network:
        self._neighbours.add(self._rows(weights))
        return super().over(weights)

    def _rows(self, weights: Weights) -> list[Row]:
        """Those that tell who is a neighbour in some round."""
        return [self._row(W) for W in (*weights.matrices, *weights.push.matrices)]

    def mixing(self, row: Row, v: Sendable, out: Tensor | None = None, *, all_reduce: bool = True) -> Flight:
        """W v, ready to depart; in ``out`` or, for None, in fresh memory."""
        if row.averaging and all_reduce and not isinstance(v, Packed):
            self._count(2 * (self.nodes - 1) / self.nodes, v)
            return AllReduce(self._neighbours, self._in_flight, v, out=out)
        self._count(len(row.tells), v)
        return Exchange(self._neighbours, row, self._in_flight, v, out=out)

    def flowing(self, row: Row, v: Sendable) -> Flight:
        """(W - I) v, ready to depart."""
        self._count(len(row.tells), v)
        return Exchange(self._neighbours, row, self._in_flight, v, flow=True)

    def letters(self, row: Row, v: Tensor) -> Flight:
        """What each neighbour sends, ready to depart."""
        self._count(len(row.tells), v[..., :1, :])
        return LetterExchange(self._neighbours, row, self._in_flight, v)

    def begin(self, v: Sendable, flight: Flight) -> Pending:
        """Let the flight travel while the node computes. A large one is work for a thread: unpacking, weighting, adding
        up; and MPI moves it only while somebody asks for it. A small one is not worth waking a thread."""
        read, exchanges = value_of(v), isinstance(flight, Exchange) and flight.moves
        large = read.is_cpu and read.numel() >= BACKGROUND_FROM
        if large and exchanges and self._transport.threads and is_hidden(self._transport):
            self._background = self._background or Background()
            flight.travel_in(self._background)
        else:
            flight.leave()
        return flight

    def gather(self, v: Tensor) -> Tensor:
        """Every node must ask at once."""
        if self._closed:
            self._refuse()
        self._neighbours.greet()
        self._neighbours.agree(v)
        return self._gather(v)

    def mean(self, v: Tensor) -> Tensor:
        """Every node must ask at once."""
        if self._closed:
            self._refuse()
        self._neighbours.greet()  # one that hangs already is named here, before it is missed in a sum
        self._neighbours.agree(v)
        return self._sum(v.to(self._transport.device, copy=True)).div_(self.nodes).to(v.device)

    def close(self) -> None:
        """Wait for every message in flight: one that is forgotten hangs gloo and corrupts MPI's heap. A closed network
        cannot be used again; closing it again does nothing."""
        if self._closed:
            return
        self._closed = True
        while self._in_flight and not self._neighbours.broken:
            self._in_flight[0].wait()
        if not self._neighbours.broken:
            if self._background is not None:
                self._background.close()
                self._background = None
            self._neighbours.close(self._last_words())

    def _last_words(self) -> str:
        done = (self._rounds, "round"), (self.traffic.mixings, "mixing")
        rounds, mixings = (f"{n} {what}{'s' * (n != 1)}" for n, what in done)
        when = f"{rounds} ({mixings})" if self._rounds else mixings
        return f"{self._fate} after {when}"

    def _refuse(self) -> None:
        raise RuntimeError(
            f"node {self.node} uses a network that is closed; use it inside its with block, or make a new one"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._fate = f"has failed with {error!r:.200}"
            if self._transport.error_ends_job:
                code = error.code if isinstance(error, SystemExit) else 1
                self._neighbours.abort(code if isinstance(code, int) and code else 1)
        super().__exit__(kind, error, trace)

    def _count(self, vectors: float, v: Sendable) -> None:
        if self._closed:
            self._refuse()
        self.traffic.mixings += 1
        self.traffic.bytes += round(vectors * wire_of(v).nbytes)

    def _gather(self, v: Tensor) -> Tensor:
        rows = torch.zeros(self.nodes, *v.shape, dtype=v.dtype, device=self._transport.device)
        rows[self.node] = v
        return self._sum(rows).to(v.device)

    def _sum(self, v: Tensor) -> Tensor:
        self._neighbours.finish_sum(self._neighbours.begin_sum(v))
        return v

    def _check_agreement(self) -> None:
        """Different weights at different nodes are a silent error, so compare fingerprints before anything else."""
        digest = hashlib.sha256(f"{self.weights!r} {self.weights.all_reduce}".encode())
        for W in (*self.weights.matrices, *self.weights.push.matrices):
            digest.update(np.ascontiguousarray(to_dense(W)).tobytes())
        mine = torch.tensor([float(int.from_bytes(digest.digest()[:6], "big"))], dtype=torch.float64)  # exact so
        prints = self._gather(mine)[:, 0]
        different = (prints != prints[0]).nonzero().flatten().tolist()
        if different:
            raise ValueError(
                f"nodes 0 and {different[0]} were given different W; build it from the same arguments and seed"
            )


@dataclass(frozen=True)
class PeersMix(Mix):
    """One round of it."""

    network: Peers
    _weights: Weights
    number: int
    row: Row

    @property
    def k(self) -> int:
        return self.number

    @property
    def nodes(self) -> int:
        return self.network.nodes

    @property
    def rows(self) -> Tensor:
        return torch.tensor([self.network.node])

    @property
    def push(self) -> Mix:
        second = self._weights.push
        return self if second is self._weights else self.network.round(self.number, second)

    def start(self, v: Sendable) -> Pending:
        return self.network.begin(v, self._mixing(v))

    def start_flow(self, v: Sendable) -> Pending:
        return self.network.begin(v, self.network.flowing(self.row, v))

    def start_exchange(self, v: Tensor) -> Pending:
        return self.network.begin(v, self.network.letters(self.row, v))

    def __call__(self, v: Sendable) -> Tensor:
        return _now(self._mixing(v))

    def flow(self, v: Sendable) -> Tensor:
        return _now(self.network.flowing(self.row, v))

    def into(self, v: Tensor, out: Tensor) -> Tensor:
        """``self(v)`` in the memory of ``out``, which keeps what it holds until everything has arrived."""
        return _now(self._mixing(v, out))

    def _mixing(self, v: Sendable, out: Tensor | None = None) -> Flight:
        return self.network.mixing(self.row, v, out, all_reduce=self._weights.all_reduce)

    @property
    def hears(self) -> Tensor:
        return torch.tensor(list(self.row.hears), dtype=torch.int64)

    @property
    def tells(self) -> Tensor:
        return torch.tensor(self.row.tells, dtype=torch.int64)

    @property
    def weights(self) -> Tensor:
        return torch.tensor(list(self.row.hears.values()), dtype=torch.float64)[:, None]

    @property
    def own(self) -> Tensor:
        return torch.tensor([self.row.own], dtype=torch.float64)


def _now(flight: Flight) -> Tensor:
    flight.leave()
    return flight.wait()
