"""The network as it ran: a drawing for every rule of weights, and its numbers for every method."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx as nx
import scipy

from dsgt import topologies
from dsgt.comparison import Settings
from dsgt.core import Matrix
from dsgt.text import short
from dsgt.topologies.drawing import layout
from dsgt.topologies.matrix import as_matrix

MOST_NODES, MOST_EDGES = 200, 1500
"""More than this is a blot on a page."""
WIDTH, MARGIN = 600.0, 28.0
ZERO = 1e-9


@dataclass(frozen=True)
class Edge:
    x1: float
    y1: float
    x2: float
    y2: float
    width: float
    kind: str
    """positive, negative or none."""
    title: str


@dataclass(frozen=True)
class Node:
    x: float
    y: float
    radius: float
    title: str


@dataclass(frozen=True)
class Drawing:
    """A rule of weights, drawn: places in a box of WIDTH by height."""

    rule: str
    height: float
    edges: list[Edge]
    nodes: list[Node]
    caption: str


@dataclass(frozen=True)
class Mixing:
    """How fast the weights of a method mix."""

    method: str
    rule: str
    rho: str
    gap: str
    lambda_n: str
    halving: str


@dataclass(frozen=True)
class Network:
    nodes: int
    edges: int
    directed: bool
    degrees: str
    mixing: list[Mixing]
    drawings: list[Drawing]


def network(settings: Settings, methods: Sequence[str], sizes: Sequence[int]) -> Network:
    """What these methods ran on; ``sizes``, how many samples each node holds, may be empty."""
    graph = settings.graph_drawn()
    weights: dict[str, Matrix] = {}
    ran_with: dict[str, str] = {}
    for method in methods:
        W, rule = settings.weights_for(method)
        ran_with[method] = rule
        weights.setdefault(rule, as_matrix(sum(W.matrices) / len(W.matrices)))  # where they change: their mean
    found = {rule: topologies.describe(W) for rule, W in weights.items()}
    heard = sorted(len(list(_heard(graph, v))) for v in graph)
    small = len(graph) <= MOST_NODES and graph.number_of_edges() <= MOST_EDGES
    places = _places(graph) if small else {}
    return Network(
        nodes=len(graph),
        edges=graph.number_of_edges(),
        directed=graph.is_directed(),
        degrees=str(heard[0]) if heard[0] == heard[-1] else f"{heard[0]} to {heard[-1]}",
        mixing=[_mixing(method, rule, found[rule]) for method, rule in ran_with.items()],
        # Where all average with all there is no graph to see.
        drawings=[_drawing(graph, W, rule, places, sizes) for rule, W in weights.items() if small and rule != "all"],
    )


def _heard(graph: nx.Graph[int], v: int) -> Iterator[int]:
    return graph.predecessors(v) if isinstance(graph, nx.DiGraph) else graph.neighbors(v)


def _mixing(method: str, rule: str, d: topologies.Description) -> Mixing:
    lambda_n = "–" if d.lambda_n is None else _tidy(d.lambda_n)
    halving = "1" if d.rounds_to_halve < 1 else short(d.rounds_to_halve, 3)
    return Mixing(method, rule, _tidy(d.rho), _tidy(d.gap), lambda_n, halving)


def _tidy(value: float) -> str:
    return short(0.0 if abs(value) < ZERO else value, 4)


def _places(graph: nx.Graph[int]) -> dict[int, tuple[float, float]]:
    """The layout, scaled into the box; y points down there."""
    raw = {v: (float(p[0]), -float(p[1])) for v, p in layout(graph).items()}
    low, high = (tuple(f(p[k] for p in raw.values()) for k in (0, 1)) for f in (min, max))
    scale = (WIDTH - 2 * MARGIN) / (max(high[0] - low[0], high[1] - low[1]) or 1.0)
    left = (WIDTH - scale * (high[0] - low[0])) / 2
    corner = left - scale * low[0], MARGIN - scale * low[1]
    return {v: (round(corner[0] + scale * x, 1), round(corner[1] + scale * y, 1)) for v, (x, y) in raw.items()}


def _drawing(
    graph: nx.Graph[int], W: Matrix, rule: str, places: dict[int, tuple[float, float]], sizes: Sequence[int]
) -> Drawing:
    entries = scipy.sparse.csr_array(W)
    weights = {(j, i): float(entries[i, j]) for j, i in graph.edges}
    top = max((abs(w) for w in weights.values()), default=0.0) or 1.0
    arrow, widest = ("→", 1.8) if graph.is_directed() else ("–", 4.5)
    thin = min(1.0, math.sqrt(80 / max(1, len(weights))))  # many edges cover each other
    nodes = [
        Node(*places[v], _radius(len(graph), v, sizes), f"node {v}" + (f": {sizes[v]} samples" if sizes else ""))
        for v in sorted(graph)
    ]
    edges = [
        Edge(
            *places[j],
            *(_rim(places[j], nodes[i]) if graph.is_directed() else places[i]),
            width=round(thin * (0.6 + widest * abs(w) / top), 2),
            kind="positive" if w > ZERO else "negative" if w < -ZERO else "none",
            title=f"{j} {arrow} {i}: weight {short(0.0 if abs(w) < ZERO else w, 3)}",
        )
        # Heavy edges last, so that they lie on top.
        for (j, i), w in sorted(weights.items(), key=lambda item: abs(item[1]))
    ]
    height = max(y for _, y in places.values()) + MARGIN
    return Drawing(rule, round(height, 1), edges, nodes, _caption(weights, bool(sizes)))


def _rim(start: tuple[float, float], end: Node) -> tuple[float, float]:
    """Where an arrow meets the circle of a node."""
    across, down = end.x - start[0], end.y - start[1]
    part = end.radius / (math.hypot(across, down) or 1.0)
    return round(end.x - part * across, 1), round(end.y - part * down, 1)


def _radius(n: int, v: int, sizes: Sequence[int]) -> float:
    """An area in proportion to the samples, but never too small to be seen."""
    full = max(3.0, min(22.0, 90 / math.sqrt(n)))
    return round(full * max(0.35, math.sqrt(sizes[v] / max(sizes))), 1) if sizes else round(0.7 * full, 1)


def _caption(weights: dict[tuple[int, int], float], sized: bool) -> str:
    values = [w for w in weights.values() if abs(w) > ZERO]
    parts = []
    if values:
        low, high = short(min(values), 3), short(max(values), 3)
        parts.append(f"Every edge weighs {low}" if low == high else f"A wide edge weighs much, from {low} to {high}")
    if negative := sum(w < -ZERO for w in weights.values()):
        parts.append(f"{negative} dashed {'edge has a' if negative == 1 else 'edges have'} negative weight")
    if none := len(weights) - len(values):
        parts.append(f"{none} dotted {'edge has' if none == 1 else 'edges have'} weight 0")
    if sized:
        parts.append("A large circle holds many samples")
    return ". ".join(parts) + "." if parts else ""
