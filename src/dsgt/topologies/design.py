"""A network made to measure: a given rho with few edges, or the smallest rho within a degree budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dsgt.core import Matrix
from dsgt.late import nx
from dsgt.topologies import graphs
from dsgt.topologies.fastest import Fastest, fdla
from dsgt.topologies.matrix import to_dense

SEARCHED_UP_TO = 300
"""Beyond this many nodes the hundreds of FDLA solves of a search take too long."""
COARSE = 1e-4
"""The gap to which FDLA is solved while searching."""
PATIENCE = 6
"""Pruning stops after this many edges in a row that could not be removed."""


@dataclass(frozen=True)
class Rival:
    """An obvious choice, with FDLA weights as well."""

    name: str
    edges: int
    max_degree: int
    rho: float


@dataclass(frozen=True)
class Design:
    graph: nx.Graph[int]
    W: Matrix
    rho: float
    rivals: list[Rival]

    @property
    def edges(self) -> int:
        return self.graph.number_of_edges()

    @property
    def max_degree(self) -> int:
        return _max_degree(self.graph)


def design(n: int, *, rho: float | None = None, degree: int | None = None, seed: int = 0) -> Design:
    """A network of n nodes that reaches rho with few edges, or that has a small rho and at most ``degree`` neighbours.

    A search, not a proof: random regular and circulant graphs to start from, weights by FDLA, then edges added where
    the slowest disagreement is largest, removed where they do not matter, or swapped.
    """
    if (rho is None) == (degree is None):
        raise ValueError(f"design was given rho = {rho} and degree = {degree}; give exactly one of the two")
    if not 2 <= n <= SEARCHED_UP_TO:
        raise ValueError(f"design was given n = {n}, but searches networks of 2 to {SEARCHED_UP_TO} nodes")
    if rho is not None:
        if not 0 <= rho < 1:
            raise ValueError(f"design was given rho = {rho}, but it lies in [0, 1): 0 is one round, 1 is never")
        graph = _few_edges(n, rho, seed)
    else:
        assert degree is not None
        if not (2 <= degree < n or n == 2 == degree + 1):
            raise ValueError(f"design was given degree = {degree}, but {n} nodes can be connected with 2 to {n - 1}")
        graph = _small_rho(n, degree, seed)
    best = fdla(graph)
    return Design(graph, best.W, best.rho, _rivals(n, seed))


def _few_edges(n: int, target: float, seed: int) -> nx.Graph[int]:
    below = graphs.ring(n)
    if _rho(below) <= target:
        return _pruned(below, target)
    for degree in range(3, n):
        graph = _best(_regular(n, degree, seed))
        if _rho(graph) <= target:
            options = [_pruned(graph, target), _pruned(_augmented(below, target), target)]
            return min(options, key=lambda g: (g.number_of_edges(), _rho(g)))
        below = graph
    return graphs.complete(n)


def _small_rho(n: int, degree: int, seed: int) -> nx.Graph[int]:
    graph = _best(_regular(n, degree, seed))
    rng = np.random.default_rng(seed)
    best, failed = _rho(graph), 0
    while failed < (150 if n <= 50 else 20):
        other = _swapped(graph, rng)
        value = _rho(other) if other is not None else 1.0
        if other is not None and value < best - COARSE:
            graph, best, failed = other, value, 0
        else:
            failed += 1
    return graph


def _regular(n: int, degree: int, seed: int) -> Iterator[nx.Graph[int]]:
    """Graphs with at most this degree that are known to mix fast."""
    if degree == n - 1:
        yield graphs.complete(n)
        return
    rng = np.random.default_rng([seed, degree])
    for attempt in range(4):
        if n * degree % 2 == 0:
            yield graphs.random_regular(n, degree=degree, seed=int(rng.integers(2**31)))
        hops = 1 + rng.choice((n - 1) // 2, size=min(degree // 2, (n - 1) // 2), replace=False)
        # The first circulant has hops in geometric progression, as the exponential graph does.
        reach = (n / 2) ** (np.arange(degree // 2) / max(degree // 2, 1)) if attempt == 0 else hops
        circulant = nx.circulant_graph(n, sorted({1} | {round(float(hop)) for hop in reach}))
        if nx.is_connected(circulant) and _max_degree(circulant) <= degree:
            yield circulant
    for known in (graphs.ring(n), graphs.torus(n), graphs.exponential(n)):
        if _max_degree(known) <= degree:
            yield known


def _best(candidates: Iterator[nx.Graph[int]]) -> nx.Graph[int]:
    return min(candidates, key=_rho)


def _augmented(graph: nx.Graph[int], target: float) -> nx.Graph[int]:
    """Edges added between the nodes that disagree longest, until the target is met."""
    graph = graph.copy()
    n = len(graph)
    while (best := _solved(graph)).rho > target and graph.number_of_edges() < n * (n - 1) // 2:
        slowest = np.linalg.eigh(to_dense(best.W) - 1 / n)[1][:, -1]
        graph.add_edge(*max(nx.non_edges(graph), key=lambda e: abs(slowest[e[0]] - slowest[e[1]])))
    return graph


def _pruned(graph: nx.Graph[int], target: float) -> nx.Graph[int]:
    """The edges with the smallest weights taken away one by one, as long as the target is met."""
    graph = graph.copy()
    removed = True
    while removed:
        removed = False
        W = to_dense(_solved(graph).W)
        for edge in sorted(graph.edges, key=lambda e: abs(W[e[0], e[1]]))[:PATIENCE]:
            smaller = graph.copy()
            smaller.remove_edge(*edge)
            if nx.is_connected(smaller) and _rho(smaller) <= target:
                graph, removed = smaller, True
                break
    return graph


def _swapped(graph: nx.Graph[int], rng: np.random.Generator) -> nx.Graph[int] | None:
    """Two edges exchange an end, so that all degrees stay; None where that would not be a simple connected graph."""
    edges = list(graph.edges)
    (a, b), (c, d) = (edges[k] for k in rng.choice(len(edges), size=2, replace=len(edges) < 2))
    if len({a, b, c, d}) < 4 or graph.has_edge(a, d) or graph.has_edge(c, b):
        return None
    other = graph.copy()
    other.remove_edges_from([(a, b), (c, d)])
    other.add_edges_from([(a, d), (c, b)])
    return other if nx.is_connected(other) else None


def _rivals(n: int, seed: int) -> list[Rival]:
    choices: dict[str, Callable[[], nx.Graph[int]]] = {
        "ring": lambda: graphs.ring(n),
        "torus": lambda: graphs.torus(n),
        "exponential": lambda: graphs.exponential(n),
        "random": lambda: graphs.random_graph(n, seed=seed),
        "complete": lambda: graphs.complete(n),
    }
    made = {name: make() for name, make in choices.items()}
    return [Rival(name, g.number_of_edges(), _max_degree(g), _rho(g)) for name, g in made.items()]


def _solved(graph: nx.Graph[int]) -> Fastest:
    return fdla(graph, tol=COARSE)


def _rho(graph: nx.Graph[int]) -> float:
    return _solved(graph).rho


def _max_degree(graph: nx.Graph[int]) -> int:
    return max((d for _, d in graph.degree), default=0)
