"""One node per process: it talks to its neighbours only, over any transport."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import TracebackType
from typing import final

import numpy as np
import torch
from torch import Tensor

from dsgt.buffers import Buffers
from dsgt.core import Matrix, Mix, Network, Pending
from dsgt.networks.background import Background
from dsgt.networks.flights import AllReduce, Exchange, Flight
from dsgt.networks.neighbours import Neighbours
from dsgt.networks.transport import Transport
from dsgt.topologies.matrix import MatrixLike, as_matrix, is_averaging, to_dense

TIMEOUT = 300.0
"""Seconds a node waits for a neighbour: longer than any gradient or evaluation is expected to take. For a large message
that travels while the node computes they run from its departure."""
BACKGROUND_FROM = 1 << 15
"""Numbers in a message from which on moving it is worth waking a thread (benchmarks/peers.py)."""


@final
class Peers(Network, Mix):
    """The node of this process; the transport says how its messages are moved."""

    def __init__(self, W: MatrixLike, transport: Transport, *, timeout: float = TIMEOUT) -> None:
        super().__init__()
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}; give the seconds to wait for a neighbour, above 0")
        self.W = as_matrix(W)
        self.nodes, self.node = self.W.shape[0], transport.node
        if self.nodes != transport.size:
            raise ValueError(
                f"W joins {self.nodes} nodes, but this job has {transport.size} process{'es' * (transport.size != 1)}: "
                f"start it with {transport.launcher.format(n=self.nodes)}, or give a W of size {transport.size}"
            )
        self._averaging = is_averaging(self.W) and self.nodes > 1
        self._transport, self._neighbours = transport, Neighbours(self.W, transport, timeout)
        self._background: Background | None = None
        self._in_flight: list[Flight] = []
        self._rounds = 0
        self._fate = "has ended"
        self._closed = False
        self._check_agreement()

    @property
    def matrices(self) -> Sequence[Matrix]:
        return [self.W]

    @property
    def timeout(self) -> float:
        return self._neighbours.timeout

    @property
    def hears(self) -> dict[int, float]:
        """Whom this node hears, and the weight it gives to each."""
        return self._neighbours.hears

    @property
    def buffers(self) -> Buffers:
        """Where messages are received."""
        return self._neighbours.buffers

    def at(self, k: int) -> Mix:
        self._rounds = k + 1
        return self

    def start(self, v: Tensor) -> Pending:
        return self._begin(v, self._mixing(v))

    def start_flow(self, v: Tensor) -> Pending:
        return self._begin(v, self._flow(v))

    def __call__(self, v: Tensor) -> Tensor:
        return _now(self._mixing(v))

    def flow(self, v: Tensor) -> Tensor:
        return _now(self._flow(v))

    def into(self, v: Tensor, out: Tensor) -> Tensor:
        """``self(v)`` in the memory of ``out``, which keeps what it holds until everything has arrived."""
        return _now(self._mixing(v, out))

    def _mixing(self, v: Tensor, out: Tensor | None = None) -> Flight:
        if self._averaging:
            self._count(2 * (self.nodes - 1) / self.nodes, v)
            return AllReduce(self._neighbours, self._in_flight, v, out=out)
        self._count(len(self._neighbours.tells), v)
        return Exchange(self._neighbours, self._in_flight, v, out=out)

    def _flow(self, v: Tensor) -> Flight:
        self._count(len(self._neighbours.tells), v)
        return Exchange(self._neighbours, self._in_flight, v, flow=True)

    def _begin(self, v: Tensor, flight: Flight) -> Pending:
        """Let the flight travel while the node computes. A large one is work for a thread: copying, weighting, adding
        up; and MPI moves it only while somebody asks for it. A small one is not worth waking a thread."""
        if self._transport.threads and v.is_cpu and v.numel() >= BACKGROUND_FROM and not self._averaging:
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

    def _count(self, vectors: float, v: Tensor) -> None:
        if self._closed:
            self._refuse()
        self.traffic.mixings += 1
        self.traffic.bytes += round(vectors * v.numel() * v.element_size())

    def _gather(self, v: Tensor) -> Tensor:
        rows = torch.zeros(self.nodes, *v.shape, dtype=v.dtype, device=self._transport.device)
        rows[self.node] = v
        return self._sum(rows).to(v.device)

    def _sum(self, v: Tensor) -> Tensor:
        self._neighbours.finish_sum(self._neighbours.begin_sum(v))
        return v

    def _check_agreement(self) -> None:
        """Different weights at different nodes are a silent error, so compare fingerprints before anything else."""
        digest = hashlib.sha256(np.ascontiguousarray(to_dense(self.W)).tobytes()).digest()[:6]  # exact in a float64
        mine = torch.tensor([float(int.from_bytes(digest, "big"))], dtype=torch.float64)
        prints = self._gather(mine)[:, 0]
        different = (prints != prints[0]).nonzero().flatten().tolist()
        if different:
            raise ValueError(
                f"nodes 0 and {different[0]} were given different W; build it from the same arguments and seed"
            )


def _now(flight: Flight) -> Tensor:
    flight.leave()
    return flight.wait()
