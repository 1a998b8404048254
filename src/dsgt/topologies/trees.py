"""Two spanning trees with one root: the fewest messages over which models and trackers can be exchanged."""

from __future__ import annotations

import numpy as np

from dsgt.core import Matrix
from dsgt.late import nx
from dsgt.topologies.assemble import from_entries
from dsgt.topologies.changing import TwoMatrices
from dsgt.topologies.check import directed


def spanning_trees(graph: nx.Graph[int], root: int = 0) -> TwoMatrices:
    """Models go from the root outwards, a node averaging its own with its parent's; trackers go inwards, a node giving
    half of its own to its parent. n - 1 links each, those that are nearest to the root."""
    directed(graph, "spanning_trees")
    if root not in graph:
        raise ValueError(f"root is {root}, but the nodes are 0 to {len(graph) - 1}")
    outwards = [(child, parent) for parent, child in nx.bfs_edges(graph, root)]
    inwards = [(parent, child) for parent, child in nx.bfs_edges(graph, root, reverse=graph.is_directed())]
    return TwoMatrices(_halved(outwards, len(graph), axis=0), _halved(inwards, len(graph), axis=1))


def _halved(links: list[tuple[int, int]], n: int, *, axis: int) -> Matrix:
    """W[i, j] = 1/2 for every link, and what is left of 1 on the diagonal: in rows (0) or in columns (1)."""
    i, j = np.array(links, dtype=np.int64).reshape(-1, 2).T
    own = np.ones(n)
    own[(i, j)[axis]] = 0.5
    weights, here = np.concatenate([np.full(len(i), 0.5), own]), np.arange(n)
    return from_entries(n, np.concatenate([i, here]), np.concatenate([j, here]), weights)
