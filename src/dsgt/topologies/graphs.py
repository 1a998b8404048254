"""Who hears whom: networkx graphs on the nodes 0 ... n - 1."""

from __future__ import annotations

import networkx as nx


def ring(n: int) -> nx.Graph[int]:
    graph: nx.Graph[int] = nx.cycle_graph(n)
    return graph
