"""All nodes in this process, and a virtual clock for each: how long would this take on a real network?

The model: node i spends ``compute`` seconds on the gradient of a drawn batch, and on more samples or points in
proportion. Its link sends one message at a time, each for bytes / bandwidth seconds, to one neighbour after the other,
and never stops the node itself; a message arrives ``latency`` seconds after its last byte has left. A node that waits
for a mixing waits for all its neighbours' messages. Where W averages everyone, and the weights allow it, the mixing is
a ring all-reduce: 2 (n - 1) hops of one n-th of the vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from torch import Tensor, from_numpy

from dsgt import randomness
from dsgt.core import Around, Matrix, Mix, Network, Pending, Sendable, Weights, wire_of
from dsgt.networks.dense import Dense, DenseMix, Sent, Simulated
from dsgt.networks.link import Compute, ComputeTimes, Link, Seconds, who_is_first
from dsgt.networks.products import PerMatrix
from dsgt.topologies.matrix import MatrixLike


class Clocked(Around):
    """``Dense`` with virtual time. ``seconds`` is when the last node has finished."""

    inner: Dense

    def __init__(
        self,
        W: MatrixLike | Weights | Dense,
        *,
        compute: Compute = 0.0,
        latency: float = 0.0,
        bandwidth: float = float("inf"),
        jitter: float = 0.0,
        loss: float = 0.0,
        seed: int = 0,
    ) -> None:
        """compute: seconds a gradient takes, for all nodes, per node, or as a function of the round (``stragglers``);
        latency in seconds, bandwidth in bytes a second, both of every link. jitter: up to so many seconds more, for
        each message; loss: the share of the messages that must be sent again, after a round trip; both drawn from the
        seed."""
        if isinstance(W, Network) and not isinstance(W, Dense):
            raise TypeError(f"Clocked times networks whose nodes all live in this process, not {type(W).__name__}")
        super().__init__(W if isinstance(W, Dense) else Dense(W))
        self.link = Link(latency, bandwidth, jitter, loss)
        self.times = ComputeTimes(compute, self.nodes)
        self.seed = seed
        self.clock = np.zeros(self.nodes)
        """Every node's own time."""
        self.link_free = np.zeros(self.nodes)
        """When every node's link has sent all it was given."""
        self.heard = np.zeros(self.nodes)
        """When every node has heard all that was sent to it; later than its clock while messages are on their way."""
        self._owed = np.zeros(self.nodes)
        """The messages of a checkpoint: they were on their way, and are waited for after the next gradient."""
        self._edges = PerMatrix(_Edges.of)
        self.activity: list[tuple[int, float, float]] | None = None
        """Where somebody wants to know who works when: (node, from, to) of every gradient."""

    @property
    def seconds(self) -> float:
        return float(self.clock.max())

    def round(self, k: int, weights: Weights) -> Mix:
        mix = self.inner.round(k, weights)
        return _TimedMix(self, mix, self._edges(mix.products.W))

    def computed(self, k: int, gradients: float | Tensor = 1.0) -> None:
        constant = self.times.constant
        begin, seconds = self.clock, self.times.row(k) if constant is None else constant
        self.clock = begin + seconds * (gradients.numpy() if isinstance(gradients, Tensor) else gradients)
        if self.activity is not None:
            self.activity += zip(range(self.nodes), begin.tolist(), self.clock.tolist(), strict=True)
        np.maximum(self.clock, self._owed, out=self.clock)

    def progress(self) -> dict[str, Tensor]:
        clocks = {"clock": self.clock, "link_free": self.link_free, "heard": self.heard}
        return super().progress() | {name: from_numpy(times.copy()) for name, times in clocks.items()}

    def restore(self, progress: dict[str, Tensor]) -> None:
        super().restore(progress)
        names = ("clock", "link_free", "heard")
        self.clock, self.link_free, self.heard = (progress[name].numpy().copy() for name in names)
        self._owed = self.heard.copy()

    def send(self, edges: _Edges, size: int, *, averaging: bool) -> Seconds:
        """Every node sends a message of so many bytes now: when does each node have all it will hear?"""
        arrival = self._arrival(edges, size, averaging=averaging)
        np.maximum(self.heard, arrival, out=self.heard)
        return arrival

    def wait_until(self, arrival: Seconds) -> None:
        """Every node waits for its messages."""
        np.maximum(self.clock, arrival, out=self.clock)

    def _arrival(self, edges: _Edges, size: int, *, averaging: bool) -> Seconds:
        link = self.link
        if averaging:
            hops = 2 * (self.nodes - 1)
            return np.full(self.nodes, self.clock.max() + hops * (link.latency + size / self.nodes / link.bandwidth))
        each = size / link.bandwidth
        departure = np.maximum(self.clock, self.link_free)
        self.link_free = departure + edges.out_degree * each
        arrival = self.clock.copy()
        sent = departure[edges.source] + edges.turn * each
        np.maximum.at(arrival, edges.target, sent + self._delay(edges))
        return arrival

    def _delay(self, edges: _Edges) -> Seconds | float:
        if not self.link.chance:
            return self.link.latency
        number = self.traffic.mixings
        return self.link.delay(
            np.stack([randomness.uniform(self.seed, number, edges.source, edges.target, c).numpy() for c in (0, 1)])
        )


@dataclass(frozen=True)
class _Edges:
    source: np.ndarray[Any, np.dtype[np.int64]]
    target: np.ndarray[Any, np.dtype[np.int64]]
    turn: np.ndarray[Any, np.dtype[np.int64]]
    """1 for the neighbour that a source sends to first, 2 for the second ..."""
    out_degree: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def of(cls, W: Matrix) -> _Edges:
        pattern = scipy.sparse.coo_array(W)
        nonzero = (pattern.row != pattern.col) & (pattern.data != 0)
        target, source = (c[nonzero].astype(np.int64) for c in (pattern.row, pattern.col))
        n = W.shape[0]
        order = np.lexsort((who_is_first(source, target, n), source))
        source, target = source[order], target[order]
        out_degree = np.bincount(source, minlength=n)
        first = np.concatenate([[0], np.cumsum(out_degree)[:-1]])
        turn = np.arange(len(source)) - first[source] + 1
        return cls(source, target, turn, out_degree)


@dataclass(frozen=True)
class _TimedMix(Simulated):
    """A mixing that takes virtual time: sending occupies links, and waiting moves the clocks."""

    clocked: Clocked
    mix: DenseMix
    edges: _Edges

    @property
    def k(self) -> int:
        return self.mix.k

    @property
    def nodes(self) -> int:
        return self.mix.nodes

    @property
    def rows(self) -> Tensor:
        return self.mix.rows

    @property
    def push(self) -> Mix:
        second = self.mix.second
        return self if second is None else self.clocked.round(self.mix.k, second)

    @property
    def direct(self) -> bool:
        return self.mix.direct

    def start(self, v: Sendable) -> Pending:
        arrival = self._send(v)
        return _Flight(self.clocked, self.mix(v), arrival)

    def start_flow(self, v: Sendable) -> Pending:
        arrival = self._send(v, flow=True)
        return _Flight(self.clocked, self.mix.flow(v), arrival)

    def into(self, v: Sendable, out: Tensor | None, *, flow: bool) -> Tensor:
        self.clocked.wait_until(self._send(v, flow=flow))
        return self.mix.into(v, out, flow=flow)

    def send(self, v: Tensor) -> Sent:
        arrival = self._send(v)
        self.mix.count(v)
        return Sent(self.mix.products, v, arrive=lambda: self.clocked.wait_until(arrival))

    def start_exchange(self, v: Tensor) -> Pending:
        arrival = self.clocked.send(self.edges, v.shape[-1] * v.element_size(), averaging=False)
        return _Flight(self.clocked, self.mix.exchange(v), arrival)

    @property
    def hears(self) -> Tensor:
        return self.mix.hears

    @property
    def tells(self) -> Tensor:
        return self.mix.tells

    @property
    def weights(self) -> Tensor:
        return self.mix.weights

    @property
    def own(self) -> Tensor:
        return self.mix.own

    def _send(self, v: Sendable, *, flow: bool = False) -> Seconds:
        sent, averaging = wire_of(v), self.mix.all_reduces(v, flow=flow)
        return self.clocked.send(self.edges, sent.nbytes // len(sent), averaging=averaging)


@dataclass(frozen=True)
class _Flight(Pending):
    clocked: Clocked
    value: Tensor
    arrival: Seconds

    def wait(self) -> Tensor:
        self.clocked.wait_until(self.arrival)
        return self.value

    def peek(self) -> Tensor:
        return self.value
