"""A node leaves for good: the network of those who stay."""

from __future__ import annotations

from collections.abc import Iterable

from dsgt.core import Matrix
from dsgt.late import nx
from dsgt.text import nearest
from dsgt.topologies.check import graph_of_numbers
from dsgt.topologies.fastest import FASTEST_UP_TO, fdla, fmmc
from dsgt.topologies.matrix import MatrixLike, as_matrix
from dsgt.topologies.spectrum import rho
from dsgt.topologies.weights import WEIGHTS

SAME = 1e-6
"""Two rules' weights on one graph differ by more than this."""
AS_FAST = 2e-4
"""Weights whose rho is this close to the smallest one count as FDLA's or FMMC's: several W may have the same rho."""


def without(W: MatrixLike, graph: nx.Graph[int], gone: int | Iterable[int], *, rule: str | None = None) -> Matrix:
    """The weights of those who stay, numbered anew in their old order, on the links that are left.

    They follow the rule by which W was made, FDLA again for FDLA, and Metropolis (push, where weights have a direction)
    for weights of no known rule. ``rule``, a name of ``WEIGHTS``, decides it otherwise, and saves the search.
    Refused where the survivors are not joined any more: then no weights can make them agree.
    """
    left = survivors(graph, gone)
    if rule is not None and rule not in WEIGHTS:
        raise ValueError(nearest(rule, WEIGHTS, "rule of weights"))
    matrix = as_matrix(W)
    _check_links(matrix, graph)
    return WEIGHTS[rule or _rule_of(matrix, graph)](left)


def _check_links(W: Matrix, graph: nx.Graph[int]) -> None:
    if W.shape[0] != len(graph):
        raise ValueError(
            f"W is of {W.shape[0]} nodes and the graph of {len(graph)}; give the graph that W was made for"
        )
    for i, j in zip(*(ends.tolist() for ends in W.nonzero()), strict=True):
        if i != j and not graph.has_edge(j, i):  # i hears j
            raise ValueError(f"W[{i}, {j}] is not 0, but the graph has no link from {j} to {i}; give the graph of W")


def _rule_of(W: Matrix, graph: nx.Graph[int]) -> str:
    if graph.is_directed() or abs(W - W.T).max() > SAME:
        return _same(W, graph, "push", "pull") or "push"
    # FDLA comes before the best constant, which on a ring and its like is the same: then it is found again.
    known = _same(W, graph, "metropolis", "lazy-metropolis", "local-degree", "max-degree")
    return known or _fastest(W, graph) or _same(W, graph, "best-constant") or "metropolis"


def _same(W: Matrix, graph: nx.Graph[int], *rules: str) -> str | None:
    return next((rule for rule in rules if abs(WEIGHTS[rule](graph) - W).max() < SAME), None)


def _fastest(W: Matrix, graph: nx.Graph[int]) -> str | None:
    """By the weights themselves or, where others are as fast, by their rho."""
    if len(graph) > FASTEST_UP_TO:
        return None
    best, positive, reached = fdla(graph), fmmc(graph), rho(W)
    for rule, found in (("fdla", best), ("fmmc", positive)):
        if abs(found.W - W).max() < SAME:
            return rule
    if reached < best.rho + AS_FAST:
        return "fdla"
    return "fmmc" if W.min() > -SAME and reached < positive.rho + AS_FAST else None


def survivors(graph: nx.Graph[int], gone: int | Iterable[int]) -> nx.Graph[int]:
    """The graph of those who stay, numbered anew in their old order; refused where they are not joined any more."""
    graph_of_numbers(graph, "survivors")
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
