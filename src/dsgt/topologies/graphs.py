"""Who hears whom: networkx graphs on the nodes 0 ... n - 1.

An edge of a directed graph points the way the information flows: (j, i) means that node i hears node j.
Random graphs take their seed as a keyword, and are connected: they are drawn again until they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from dsgt.late import nx

TRIES = 100
"""How often a random graph is drawn before giving up on a connected one."""


def path(n: int) -> nx.Graph[int]:
    return _typed(nx.path_graph(_nodes(n)))


def ring(n: int) -> nx.Graph[int]:
    """Everyone hears the two neighbours; two nodes share one link, and one has none."""
    return _typed(nx.cycle_graph(n) if _nodes(n) > 2 else nx.path_graph(n))


def star(n: int) -> nx.Graph[int]:
    """Node 0 is linked to everyone else."""
    return _typed(nx.star_graph(_nodes(n) - 1))


def complete(n: int) -> nx.Graph[int]:
    return _typed(nx.complete_graph(_nodes(n)))


def grid(n: int, *, rows: int | None = None) -> nx.Graph[int]:
    """A rectangle of n nodes, as square as n allows or with the given rows."""
    r = _rows(n, rows, "grid")
    graph = _numbered(nx.grid_2d_graph(r, n // r))
    nx.set_node_attributes(graph, {v: (v % (n // r), -(v // (n // r))) for v in graph}, "pos")
    return graph


def torus(n: int, *, rows: int | None = None) -> nx.Graph[int]:
    """A rectangle whose opposite sides are joined: everyone has four neighbours once both sides exceed two."""
    r = _rows(n, rows, "torus")
    graph = _numbered(nx.grid_2d_graph(r, n // r, periodic=True))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def complete_bipartite(n: int, *, left: int | None = None) -> nx.Graph[int]:
    """Two groups, each node linked to the whole other group; of equal size, or with ``left`` nodes in the first."""
    a = _nodes(n) // 2 if left is None else left
    if n < 2 or not 0 < a < n:
        raise ValueError(
            f"complete_bipartite was given n = {n} with {a} nodes on the left, but both groups need a node"
        )
    return _typed(nx.complete_bipartite_graph(a, n - a))


def binary_tree(n: int) -> nx.Graph[int]:
    """Node v > 0 is linked to its parent (v - 1) // 2."""
    graph: nx.Graph[int] = nx.empty_graph(_nodes(n))
    graph.add_edges_from(((v - 1) // 2, v) for v in range(1, n))
    return graph


def hypercube(n: int) -> nx.Graph[int]:
    """Nodes are linked when their numbers differ in one bit; n must be a power of two."""
    bits = _nodes(n).bit_length() - 1
    if n != 2**bits:
        raise ValueError(f"hypercube was given n = {n}, but needs a power of two; try {2**bits} or {2 ** (bits + 1)}")
    graph: nx.Graph[int] = nx.empty_graph(n)
    graph.add_edges_from((v, v ^ (1 << b)) for v in range(n) for b in range(bits))
    return graph


def exponential(n: int) -> nx.Graph[int]:
    """Node v is linked to v + 1, v + 2, v + 4, ... modulo n: about 2 log2(n) neighbours and a tiny diameter."""
    graph: nx.Graph[int] = nx.empty_graph(_nodes(n))
    graph.add_edges_from((v, (v + hop) % n) for hop in _hops(n) for v in range(n))
    return graph


def directed_ring(n: int) -> nx.DiGraph[int]:
    """Node v + 1 hears node v."""
    return _circulant(n, [1] if _nodes(n) > 1 else [])


def directed_exponential(n: int) -> nx.DiGraph[int]:
    """Nodes v + 1, v + 2, v + 4, ... modulo n hear node v: log2(n) messages a round, for push-sum."""
    return _circulant(_nodes(n), _hops(n))


def directed_random(n: int, *, degree: int | None = None, seed: int = 0) -> nx.DiGraph[int]:
    """Everyone is heard by the next node and by ``degree`` - 1 random others (log2 n in all, unless said)."""
    degree = max(1, min(_nodes(n) - 1, round(math.log2(n)))) if degree is None else degree
    if n > 1 and not 1 <= degree < n:
        raise ValueError(f"directed_random was given degree = {degree}, but a node of {n} can be heard by 1 to {n - 1}")
    graph = directed_ring(n)
    rng = np.random.default_rng(seed)
    for v in range(n if n > 2 else 0):
        hops = 2 + rng.choice(n - 2, size=degree - 1, replace=False)
        graph.add_edges_from((v, int((v + hop) % n)) for hop in hops)
    return graph


def erdos_renyi(n: int, *, p: float | None = None, seed: int = 0) -> nx.Graph[int]:
    """Every link exists with probability p; unless said, twice the threshold of connectedness, 2 ln(n) / n."""
    p = min(1.0, 2 * math.log(max(_nodes(n), 2)) / n) if p is None else p
    if not 0 <= p <= 1:
        raise ValueError(f"erdos_renyi was given p = {p}, but a probability lies between 0 and 1")
    return _connected(lambda s: nx.fast_gnp_random_graph(n, p, seed=s), seed, f"erdos_renyi with p = {p:.3g}", "p")


def random_regular(n: int, *, degree: int = 4, seed: int = 0) -> nx.Graph[int]:
    """Everyone has the same number of neighbours, chosen at random: an expander with high probability."""
    if not 0 < degree < _nodes(n) or n * degree % 2:
        raise ValueError(
            f"random_regular was given degree = {degree} for n = {n} nodes, but the degree must be positive, below n, "
            "and n * degree even"
        )
    name = f"random_regular with degree = {degree}"
    return _connected(lambda s: nx.random_regular_graph(degree, n, seed=s), seed, name, "degree")


def random_geometric(n: int, *, radius: float | None = None, seed: int = 0) -> nx.Graph[int]:
    """Sensors at random places of the unit square, linked within the radius. Their places are the nodes' ``pos``."""
    radius = math.sqrt(2 * math.log(max(_nodes(n), 2)) / (math.pi * n)) * 1.2 if radius is None else radius
    if not radius > 0:
        raise ValueError(f"random_geometric was given radius = {radius}, but needs a positive one")
    name = f"random_geometric with radius = {radius:.3g}"
    return _connected(lambda s: nx.random_geometric_graph(n, radius, seed=s), seed, name, "radius")


def small_world(n: int, *, degree: int = 4, p: float = 0.2, seed: int = 0) -> nx.Graph[int]:
    """Watts and Strogatz: a ring of ``degree`` near neighbours, each link rewired with probability p."""
    if not 2 <= degree < _nodes(n) or degree % 2 or not 0 <= p <= 1:
        raise ValueError(
            f"small_world was given degree = {degree} and p = {p} for n = {n}; the degree must be even, at least 2 and "
            "below n, and p between 0 and 1"
        )
    return _connected(lambda s: nx.watts_strogatz_graph(n, degree, p, seed=s), seed, "small_world", "degree")


def random_graph(n: int, *, seed: int = 0) -> nx.Graph[int]:
    """The paper's: a random connected graph where a node has 2 log2(n) neighbours on average.

    Of all graphs with n log2(n) edges one is drawn, again until it is connected.
    """
    edges = min(round(_nodes(n) * math.log2(n)), n * (n - 1) // 2)
    return _connected(lambda s: nx.gnm_random_graph(n, edges, seed=s), seed, "random_graph", "n")


GRAPHS: dict[str, Callable[..., nx.Graph[int]]] = {
    "path": path,
    "ring": ring,
    "grid": grid,
    "torus": torus,
    "star": star,
    "complete": complete,
    "complete-bipartite": complete_bipartite,
    "binary-tree": binary_tree,
    "hypercube": hypercube,
    "exponential": exponential,
    "erdos-renyi": erdos_renyi,
    "random-regular": random_regular,
    "random-geometric": random_geometric,
    "small-world": small_world,
    "random": random_graph,
    "directed-ring": directed_ring,
    "directed-exponential": directed_exponential,
    "directed-random": directed_random,
}
"""What the command line offers by name. Each takes n; the random ones a seed."""


def _nodes(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise TypeError(f"n is {n!r}, but the number of nodes is an integer")
    if n < 1:
        raise ValueError(f"n is {n}, but a network has at least one node")
    return int(n)


def _rows(n: int, rows: int | None, name: str) -> int:
    if rows is None:
        return next(r for r in range(math.isqrt(_nodes(n)), 0, -1) if n % r == 0)
    if rows < 1 or _nodes(n) % rows:
        raise ValueError(f"{name} was given n = {n} and rows = {rows}, but the rows must divide n")
    return rows


def _hops(n: int) -> list[int]:
    return [2**k for k in range((n - 1).bit_length())]


def _circulant(n: int, hops: list[int]) -> nx.DiGraph[int]:
    graph: nx.DiGraph[int] = nx.empty_graph(n, create_using=nx.DiGraph)
    graph.add_edges_from((v, (v + hop) % n) for hop in hops for v in range(n))
    return graph


def _numbered(graph: Any) -> nx.Graph[int]:
    """The same graph on 0 ... n - 1, row by row."""
    return _typed(nx.convert_node_labels_to_integers(graph, ordering="sorted"))


def _typed(graph: Any) -> nx.Graph[int]:
    """What networkx's generators return, with the type that their stubs leave open."""
    return cast("nx.Graph[int]", graph)


def _connected(draw: Callable[[int], nx.Graph[int]], seed: int, name: str, knob: str) -> nx.Graph[int]:
    for attempt in range(TRIES):
        # The first attempt is what networkx draws for the seed itself; the others do not collide with other seeds.
        graph = draw(seed if attempt == 0 else int(np.random.default_rng([seed, attempt]).integers(2**31)))
        if nx.is_connected(graph):
            return graph
    raise ValueError(f"{name} was not connected in {TRIES} draws for n = {len(graph)}; use a larger {knob}")
