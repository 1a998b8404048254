"""Networks: who hears whom (graphs), how much (weights), how fast they agree (spectrum), and what they look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsgt.extras import explained
from dsgt.topologies.base_graph import base_graph
from dsgt.topologies.changing import Cycle, Fixed, Periodic, TwoMatrices
from dsgt.topologies.design import Design, design
from dsgt.topologies.equitopo import EquiDyn, equi_shifts, equi_static
from dsgt.topologies.fastest import Fastest, fdla, fmmc
from dsgt.topologies.files import from_adjacency, from_edges, read_network, write_network
from dsgt.topologies.graphs import (
    GRAPHS,
    binary_tree,
    complete,
    complete_bipartite,
    directed_exponential,
    directed_random,
    directed_ring,
    erdos_renyi,
    exponential,
    grid,
    hypercube,
    path,
    random_geometric,
    random_graph,
    random_regular,
    ring,
    small_world,
    star,
    torus,
)
from dsgt.topologies.leave import survivors, without
from dsgt.topologies.matrix import as_matrix
from dsgt.topologies.names import named_network
from dsgt.topologies.random_weights import Activated, Lossy, Pairs
from dsgt.topologies.spectrum import Description, describe, rho, smallest_eigenvalue
from dsgt.topologies.trees import spanning_trees
from dsgt.topologies.weights import (
    WEIGHTS,
    averaging,
    best_constant,
    lazy_metropolis,
    lift,
    local_degree,
    max_degree,
    metropolis,
    metropolis_row,
    one_peer_exponential,
    pull_weights,
    push_weights,
)

if TYPE_CHECKING:
    from dsgt.topologies.drawing import draw, draw_side_by_side

__all__ = [
    "GRAPHS",
    "WEIGHTS",
    "Activated",
    "Cycle",
    "Description",
    "Design",
    "EquiDyn",
    "Fastest",
    "Fixed",
    "Lossy",
    "Pairs",
    "Periodic",
    "TwoMatrices",
    "as_matrix",
    "averaging",
    "base_graph",
    "best_constant",
    "binary_tree",
    "complete",
    "complete_bipartite",
    "describe",
    "design",
    "directed_exponential",
    "directed_random",
    "directed_ring",
    "draw",
    "draw_side_by_side",
    "equi_shifts",
    "equi_static",
    "erdos_renyi",
    "exponential",
    "fdla",
    "fmmc",
    "from_adjacency",
    "from_edges",
    "grid",
    "hypercube",
    "lazy_metropolis",
    "lift",
    "local_degree",
    "max_degree",
    "metropolis",
    "metropolis_row",
    "named_network",
    "one_peer_exponential",
    "path",
    "pull_weights",
    "push_weights",
    "random_geometric",
    "random_graph",
    "random_regular",
    "read_network",
    "rho",
    "ring",
    "small_world",
    "smallest_eigenvalue",
    "spanning_trees",
    "star",
    "survivors",
    "torus",
    "without",
    "write_network",
]


def __getattr__(name: str) -> Any:
    """What draws is imported when it is used: training needs no matplotlib."""
    if name not in ("draw", "draw_side_by_side"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with explained():
        from dsgt.topologies import drawing
    return getattr(drawing, name)
