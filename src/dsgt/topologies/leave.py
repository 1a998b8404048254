"""A node leaves for good: the network of those who stay."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from dsgt.topologies.check import graph_of_numbers


def without(graph: nx.Graph[int], gone: int | Iterable[int]) -> nx.Graph[int]:
    """The graph of the survivors, numbered anew in their old order: ``metropolis(without(graph, 3))`` is their W.

    Refused where the survivors are not joined any more: then no weights can make them agree.
    """
    graph_of_numbers(graph, "without")
    leaving = {gone} if isinstance(gone, int) else set(gone)
    if unknown := leaving - set(graph.nodes):
        raise ValueError(f"node {min(unknown)} cannot leave a network of the nodes 0 ... {len(graph) - 1}")
    stay = sorted(set(graph.nodes) - leaving)
    if not stay:
        raise ValueError(f"all {len(graph)} nodes leave, so there is no network left; keep at least one")
    left = graph.subgraph(stay)
    joined = nx.strongly_connected_components if graph.is_directed() else nx.connected_components
    pieces: list[set[int]] = list(joined(left))  # type: ignore[call-overload]
    if len(pieces) > 1:
        raise ValueError(
            f"without {sorted(leaving)} the network falls into {len(pieces)} pieces, one of them {sorted(pieces[0])}; "
            "go on with one piece, or add links between them"
        )
    renumbered: nx.Graph[int] = nx.DiGraph() if graph.is_directed() else nx.Graph()
    renumbered.add_nodes_from(range(len(stay)))
    renumbered.add_edges_from((stay.index(u), stay.index(v)) for u, v in left.edges)
    return renumbered
