"""A network as a person names it: one of the table of graphs, of cycles of weights, a file, or one's own function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

from dsgt.core import Matrix
from dsgt.factories import Factory, is_factory, lookup
from dsgt.late import nx
from dsgt.randomness import all_seeded
from dsgt.text import nearest
from dsgt.topologies.base_graph import base_graph
from dsgt.topologies.check import graph_of_numbers
from dsgt.topologies.files import READERS, Stored, read_network
from dsgt.topologies.graphs import GRAPHS
from dsgt.topologies.weights import one_peer_exponential

CYCLES: dict[str, Callable[[int], list[Matrix]]] = {
    "one-peer": one_peer_exponential,
    "base-2": base_graph,
    "base-3": partial(base_graph, k=2),
}
"""Networks that change from round to round and have weights of their own: a node hears one other, or at most two."""


def named_network(name: str | Factory, nodes: int, *, degree: int | None = None, seed: int = 0) -> Stored:
    """The graph of this name with so many nodes, or the graph, and the weights if there are any, in a file. Your own is
    ``module:name``, a function of nodes and seed that gives a networkx graph."""
    if (own := own_graph(name)) is not None:
        if degree is not None:
            raise ValueError(f"the graph {own.text!r} is your own; give it its degree as module:name:degree={degree}")
        return Stored(_made(own, nodes, seed), None)
    name = str(name)
    if Path(name).suffix in READERS:
        stored = read_network(name)
        if len(stored.graph) != nodes:
            raise ValueError(
                f"{name} has {len(stored.graph)} nodes, but {nodes} were asked for; use {len(stored.graph)}"
            )
        return stored
    if name not in GRAPHS:
        raise ValueError(nearest(name, GRAPHS, "graph") + "; or your own, module:name")
    make = GRAPHS[name]
    known = inspect.signature(make).parameters
    if degree is not None and "degree" not in known:
        able = ", ".join(k for k, f in GRAPHS.items() if "degree" in inspect.signature(f).parameters)
        raise ValueError(f"the graph {name!r} has no degree to choose; those that have: {able}")
    options = {"degree": degree} if degree is not None else {}
    return Stored(make(nodes, **options, **({"seed": seed} if "seed" in known else {})), None)


def own_graph(given: str | Factory) -> Factory | None:
    """A person's own; None where it is a built-in name or a file."""
    if isinstance(given, Factory):
        return given
    return lookup(given, "graph") if is_factory(given) and not Path(given).is_file() else None


@lru_cache(maxsize=16)  # all methods have the same
def _made(own: Factory, nodes: int, seed: int) -> nx.Graph[int]:
    def make() -> nx.Graph[int]:
        with all_seeded(seed):  # without touching the global streams
            graph: nx.Graph[int] = own.make(nx.Graph, nodes=nodes, seed=seed)
        return graph

    graph = make()
    try:
        graph_of_numbers(graph, "dsgt")
    except ValueError as error:
        raise ValueError(f"the graph {own.text!r} cannot be used: {error}") from None
    if len(graph) != nodes:
        raise ValueError(f"the graph {own.text!r} has {len(graph)} nodes, but {nodes} were asked for; use {len(graph)}")
    if {*make().edges} != {*graph.edges}:
        raise ValueError(
            f"the graph {own.text!r} has other links whenever it is made; draw them from its argument seed alone"
        )
    return graph
