"""A network as a person names it: one of the table of graphs, of cycles of weights, or a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dsgt.core import Matrix
from dsgt.text import nearest
from dsgt.topologies.base_graph import base_graph
from dsgt.topologies.files import READERS, Stored, read_network
from dsgt.topologies.graphs import GRAPHS
from dsgt.topologies.weights import one_peer_exponential

CYCLES: dict[str, Callable[[int], list[Matrix]]] = {
    "one-peer": one_peer_exponential,
    "base-2": base_graph,
    "base-3": partial(base_graph, k=2),
}
"""Networks that change from round to round and have weights of their own: a node hears one other, or at most two."""


def named_network(name: str, nodes: int, *, degree: int | None = None, seed: int = 0) -> Stored:
    """The graph of this name with so many nodes, or the graph, and the weights if there are any, in a file."""
    if Path(name).suffix in READERS:
        stored = read_network(name)
        if len(stored.graph) != nodes:
            raise ValueError(
                f"{name} has {len(stored.graph)} nodes, but {nodes} were asked for; use {len(stored.graph)}"
            )
        return stored
    if name not in GRAPHS:
        raise ValueError(nearest(name, GRAPHS, "graph"))
    make = GRAPHS[name]
    known = inspect.signature(make).parameters
    if degree is not None and "degree" not in known:
        able = ", ".join(k for k, f in GRAPHS.items() if "degree" in inspect.signature(f).parameters)
        raise ValueError(f"the graph {name!r} has no degree to choose; those that have: {able}")
    options = {"degree": degree} if degree is not None else {}
    return Stored(make(nodes, **options, **({"seed": seed} if "seed" in known else {})), None)
