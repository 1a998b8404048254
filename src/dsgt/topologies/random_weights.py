"""Weights that chance decides anew in every round, as a function of the seed and the round: every node knows them."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dsgt import randomness
from dsgt.core import Matrix, Weights
from dsgt.late import nx
from dsgt.topologies.assemble import assemble, paired
from dsgt.topologies.check import graph_of_numbers
from dsgt.topologies.matrix import MatrixLike, as_matrix
from dsgt.topologies.spectrum import is_symmetric
from dsgt.topologies.thinned import Thinned, thinnable

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Weights):
    """Random pairwise gossip: in each round one edge {i, j}, and its two ends move by ``weight`` to each other, by 1/2
    to their mean; everybody else keeps what he has. Any edge is as probable as any other, unless ``probabilities``
    gives those of ``edges``; what they lack to 1 is that of a round in which nobody mixes.

    ``graph`` is undirected; a matrix stands for the graph of its nonzero weights. Boyd, Ghosh, Prabhakar and Shah,
    Randomized gossip algorithms, 2006.
    """

    random: ClassVar[bool] = True
    graph: nx.Graph[int] | MatrixLike
    weight: float = 0.5
    seed: int = 0
    probabilities: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.weight < 1:
            raise ValueError(
                f"weight of Pairs is {self.weight}; expected above 0 and below 1: 1/2 for the mean of both"
            )
        n, edges = self._network
        if len(edges) == 0:
            raise ValueError(
                f"Pairs was given {n} nodes without an edge, but every round picks one; give a connected graph"
            )
        if (p := self.probabilities) is not None and not (
            len(p) == len(edges) and min(p) >= 0 and math.fsum(p) <= 1 + 1e-9
        ):
            raise ValueError(
                f"Pairs was given {len(p)} probabilities of sum {math.fsum(p):g} for {len(edges)} edges; expected one "
                "for each of its edges, at least 0, and 1 at most together"
            )

    @property
    def edges(self) -> Array:
        """The two ends of every edge, (E, 2)."""
        return self._network[1]

    def edge(self, k: int) -> int | None:
        """Which of ``edges`` round k draws; None where nobody mixes."""
        drawn = self._draws(k)
        if self.probabilities is None:
            return int(drawn * len(self.edges))
        found = bisect.bisect_right(self._upto, drawn)
        return found if found < len(self.edges) else None

    def ends(self, k: int) -> tuple[int, int] | None:
        """The two nodes that mix in round k."""
        e = self.edge(k)
        return None if e is None else (int(self.edges[e, 0]), int(self.edges[e, 1]))

    def at(self, k: int) -> Matrix:
        return self._of(self.edge(k))

    @cached_property
    def matrices(self) -> Sequence[Matrix]:
        n, edges = self._network
        p = np.full(len(edges), 1 / len(edges)) if self.probabilities is None else np.array(self.probabilities)
        return [assemble(n, edges[:, 0], edges[:, 1], self.weight * p)]

    @cached_property
    def single(self) -> Sequence[Matrix]:
        return [self._of(0)]

    def _of(self, edge: int | None) -> Matrix:
        n, edges = self._network
        if edge is None:
            return self._alone
        i, j = edges[edge]
        return paired(n, i, j, self.weight)

    @cached_property
    def _alone(self) -> Matrix:
        return assemble(self._network[0], [], [], [])

    @cached_property
    def _upto(self) -> list[float]:
        """The probability of an edge up to each one; of the last one 1 where only rounding lacks."""
        total: Array = np.cumsum(self.probabilities or ())
        upto: list[float] = (total / total[-1] if total[-1] > 1 - 1e-9 else total).tolist()
        return upto

    @cached_property
    def _draws(self) -> randomness.Draws:
        return randomness.Draws(self.seed)

    @cached_property
    def _network(self) -> tuple[int, Array]:
        """How many nodes, and the two ends of every edge."""
        if not isinstance(self.graph, nx.Graph):
            messages = Thinned(as_matrix(self.graph))
            n, i, j = messages.nodes, messages.rows, messages.columns
            if not np.array_equal(np.sort(i * n + j), np.sort(j * n + i)):
                raise ValueError(
                    "Pairs was given a W in which some node hears another that does not hear it, but both ends of an "
                    "edge move; use weights whose links go both ways"
                )
            return n, np.stack([i, j], axis=1)[i < j]
        graph_of_numbers(self.graph, "Pairs")
        if self.graph.is_directed():
            raise ValueError(
                "Pairs was given a directed graph, but both ends of an edge move; use graph.to_undirected()"
            )
        return len(self.graph), np.array(list(self.graph.edges), dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True, eq=False, repr=False)
class Lossy(Weights):
    """Each message is lost with probability p, whatever becomes of the others; its weight stays with who did not hear
    it. So the rows of every matrix sum to 1, but the columns only in the mean: a sum over the nodes is not kept.

    ``both_ways``: an edge fails in both directions at once, and W stays symmetric. What is mixed with the second matrix
    is lost by a draw of its own (``draw`` = 1). A lost message counts as not sent.
    """

    random: ClassVar[bool] = True
    W: MatrixLike
    p: float
    seed: int = 0
    both_ways: bool = False
    draw: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.p < 1:
            raise ValueError(f"p of Lossy is {self.p}; expected the probability of a loss, at least 0 and below 1")
        W = self._messages.W
        if self.both_ways and not is_symmetric(W):
            raise ValueError(
                "Lossy with both_ways was given a W that is not symmetric, but an edge that fails in both directions "
                "takes the same weight from both ends; use topologies.metropolis(graph), or leave both_ways out"
            )

    def at(self, k: int) -> Matrix:
        if self.p == 0:
            return self._messages.W
        drawn = randomness.uniform_of(randomness.absorb(self._chance, k))
        return self._messages.where(drawn.numpy() >= self.p)

    @cached_property
    def push(self) -> Weights:
        return self if self.draw else replace(self, draw=1)

    @cached_property
    def matrices(self) -> Sequence[Matrix]:
        return [self._messages.mean(1 - self.p)]

    @cached_property
    def single(self) -> Sequence[Matrix]:
        """W, which has the lowest eigenvalue of all, and W without its first message."""
        others = self._numbers != self._numbers[:1]
        return [self._messages.W] + [self._messages.where(others)] * (self.p > 0)

    @cached_property
    def _messages(self) -> Thinned:
        return thinnable(self.W, "Lossy")

    @cached_property
    def _chance(self) -> randomness.Hash:
        """The round comes last, so that the rest is absorbed once."""
        return randomness.absorb(self.seed, self.draw, self._numbers)

    @cached_property
    def _numbers(self) -> Array:
        """Messages of the same number are lost together."""
        i, j = self._messages.rows, self._messages.columns
        if self.both_ways:
            i, j = np.minimum(i, j), np.maximum(i, j)
        numbers: Array = i * self._messages.nodes + j
        return numbers


@dataclass(frozen=True, eq=False, repr=False)
class Activated(Weights):
    """In each round a random set of nodes takes part: each node with probability ``share``, or ``count`` of them. Who
    takes part hears the neighbours that do; the weight of the others stays at home, and a symmetric W symmetric."""

    random: ClassVar[bool] = True
    W: MatrixLike
    share: float | None = None
    count: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        n = self._messages.nodes
        if (self.share is None) == (self.count is None):
            raise ValueError(f"Activated was given share={self.share} and count={self.count}; expected one of the two")
        if self.share is not None and not 0 < self.share <= 1:
            raise ValueError(
                f"share of Activated is {self.share}; expected a node's probability to take part, in (0, 1]"
            )
        if self.count is not None and not 2 <= self.count <= n:
            raise ValueError(
                f"count of Activated is {self.count}; expected how many of the {n} nodes take part, 2 to {n}"
            )

    def at(self, k: int) -> Matrix:
        drawn = randomness.uniform_of(randomness.absorb(self._chance, k)).numpy()
        if self.count is None:
            return self._among(drawn < self.share)
        active = np.zeros(len(drawn), dtype=bool)
        active[drawn.argsort(kind="stable")[: self.count]] = True
        return self._among(active)

    @cached_property
    def matrices(self) -> Sequence[Matrix]:
        n = self._messages.nodes
        both = self.share**2 if self.share else (self.count or 0) * ((self.count or 0) - 1) / (n * (n - 1))
        return [self._messages.mean(both)]

    @cached_property
    def single(self) -> Sequence[Matrix]:
        """W, which has the lowest eigenvalue of all, and W without the node whose silence unbalances it most."""
        W = self._messages.W
        active = np.ones(W.shape[0], dtype=bool)
        active[int(np.asarray(abs(W - W.T).sum(axis=1)).argmax())] = False
        return [W, self._among(active)]

    def _among(self, active: Array) -> Matrix:
        return self._messages.where(active[self._messages.rows] & active[self._messages.columns])

    @cached_property
    def _messages(self) -> Thinned:
        return thinnable(self.W, "Activated")

    @cached_property
    def _chance(self) -> randomness.Hash:
        return randomness.absorb(self.seed, np.arange(self._messages.nodes))
