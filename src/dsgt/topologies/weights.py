"""How much: weight matrices for a graph. W[i, j] is the weight node i gives to what it hears from node j."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy

from dsgt.core import Matrix
from dsgt.late import nx
from dsgt.topologies import fastest
from dsgt.topologies.assemble import assemble, from_entries
from dsgt.topologies.check import directed, undirected
from dsgt.topologies.matrix import MatrixLike, as_matrix
from dsgt.topologies.spectrum import EDGE, is_above, laplacian_extremes, smallest_eigenvalue

Array = np.ndarray[Any, np.dtype[np.float64]]


def metropolis(graph: nx.Graph[int]) -> Matrix:
    """W[i, j] = 1 / (1 + max(d_i, d_j)): symmetric, doubly stochastic, known from the degrees of two neighbours."""
    i, j, d = _edges(graph, "metropolis")
    return assemble(len(graph), i, j, 1 / (1 + np.maximum(d[i], d[j])))


def metropolis_row(my_degree: int, neighbour_degrees: Sequence[int]) -> tuple[float, list[float]]:
    """A node's own row of ``metropolis``, from what it can know: its weight for itself, then one per neighbour."""
    if my_degree != len(neighbour_degrees) or any(d < 1 for d in neighbour_degrees):
        raise ValueError(
            f"metropolis_row was given my_degree = {my_degree} and the degrees {list(neighbour_degrees)} of the "
            "neighbours; there is one for each neighbour, and each is at least 1"
        )
    row = [1 / (1 + max(my_degree, d)) for d in neighbour_degrees]
    return 1 - sum(row), row


def lazy_metropolis(graph: nx.Graph[int]) -> Matrix:
    """(I + W) / 2 of ``metropolis``: no negative eigenvalue, so every method may use it, at half the speed."""
    i, j, d = _edges(graph, "lazy_metropolis")
    return assemble(len(graph), i, j, 0.5 / (1 + np.maximum(d[i], d[j])))


def local_degree(graph: nx.Graph[int]) -> Matrix:
    """W[i, j] = 1 / max(d_i, d_j). On a regular bipartite graph rho = 1: the nodes never agree."""
    i, j, d = _edges(graph, "local_degree")
    return assemble(len(graph), i, j, 1 / np.maximum(d[i], d[j]))


def max_degree(graph: nx.Graph[int]) -> Matrix:
    """The weight 1 / (1 + the largest degree) on every edge."""
    i, j, d = _edges(graph, "max_degree")
    return assemble(len(graph), i, j, np.full(len(i), 1 / (1 + d.max())))


def best_constant(graph: nx.Graph[int]) -> Matrix:
    """The best weight that is the same on every edge, 2 / (l_2 + l_max) of the graph's Laplacian."""
    i, j, d = _edges(graph, "best_constant")
    if len(i) == 0:
        return assemble(1, i, j, [])
    low, high = laplacian_extremes(assemble(len(graph), i, j, np.full(len(i), 1 / (2 * d.max()))))
    return assemble(len(graph), i, j, np.full(len(i), 2 / (low + high) / (2 * d.max())))


def push_weights(graph: nx.Graph[int]) -> Matrix:
    """Column stochastic: node j splits what it holds equally among those who hear it, and itself."""
    directed(graph, "push_weights")
    i, j = _links(graph)
    share = 1 / (1 + np.bincount(j, minlength=len(graph)))
    return _with_own(graph, i, j, share[j], share)


def pull_weights(graph: nx.Graph[int]) -> Matrix:
    """Row stochastic: node i averages what it hears, and its own."""
    directed(graph, "pull_weights")
    i, j = _links(graph)
    share = 1 / (1 + np.bincount(i, minlength=len(graph)))
    return _with_own(graph, i, j, share[i], share)


def averaging(n: int) -> Array:
    """W = 11'/n: everyone hears everyone."""
    if n < 1:
        raise ValueError(f"n is {n}, but a network has at least one node")
    return np.full((n, n), 1 / n)


def one_peer_exponential(n: int) -> list[Matrix]:
    """One matrix per round, to be repeated: in round k node i hears node i - 2^k only, and averages the two.

    For n a power of two the product of the log2(n) rounds is exactly 11'/n; for other n it only comes close.
    """
    if n < 1:
        raise ValueError(f"n is {n}, but a network has at least one node")
    i = np.arange(n)
    hops = [2**k for k in range((n - 1).bit_length())]
    half = np.full(2 * n, 0.5)
    rounds = [from_entries(n, np.concatenate([i, i]), np.concatenate([i, (i - hop) % n]), half) for hop in hops]
    return rounds or [averaging(1)]


def lift(W: MatrixLike, floor: float) -> Matrix:
    """The nearest (1 - s) W + s I with its smallest eigenvalue above the floor, and W itself where it is already.

    D2 needs a floor of -1/3. Lifting keeps rows, columns and symmetry, and slows the mixing.
    """
    matrix = as_matrix(W)
    if not floor < 1:
        raise ValueError(f"floor is {floor}, but no weight matrix has its smallest eigenvalue above 1; use less than 1")
    lowest = smallest_eigenvalue(matrix)
    if is_above(lowest, floor):
        return matrix
    s = (floor + 2 * EDGE - lowest) / (1 - lowest)  # so that ``is_above`` is true of what comes out
    if scipy.sparse.issparse(matrix):
        return scipy.sparse.csr_array((1 - s) * matrix + s * scipy.sparse.eye_array(matrix.shape[0], format="csr"))
    return (1 - s) * matrix + s * np.eye(len(matrix))


def _fdla(graph: nx.Graph[int]) -> Matrix:
    return fastest.fdla(graph).W


def _fmmc(graph: nx.Graph[int]) -> Matrix:
    return fastest.fmmc(graph).W


WEIGHTS: dict[str, Callable[[nx.Graph[int]], Matrix]] = {
    "metropolis": metropolis,
    "lazy-metropolis": lazy_metropolis,
    "local-degree": local_degree,
    "max-degree": max_degree,
    "best-constant": best_constant,
    "fmmc": _fmmc,
    "fdla": _fdla,
    "push": push_weights,
    "pull": pull_weights,
}
"""What the command line offers by name; push and pull also take directed graphs."""


def _edges(graph: nx.Graph[int], rule: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Array]:
    """The ends of the edges and the degrees of the nodes, after the checks."""
    undirected(graph, rule)
    ends = np.array(list(graph.edges), dtype=np.intp).reshape(-1, 2)
    return ends[:, 0], ends[:, 1], np.bincount(ends.ravel(), minlength=len(graph)).astype(np.float64)


def _links(graph: nx.Graph[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Who hears (i) whom (j), one entry per direction."""
    ends = np.array(list(graph.edges), dtype=np.intp).reshape(-1, 2)
    j, i = ends[:, 0], ends[:, 1]
    return (i, j) if graph.is_directed() else (np.concatenate([i, j]), np.concatenate([j, i]))


def _with_own(graph: nx.Graph[int], i: Any, j: Any, links: Array, own: Array) -> Matrix:
    nodes = np.arange(len(graph))
    rows, columns = np.concatenate([i, nodes]), np.concatenate([j, nodes])
    return from_entries(len(graph), rows, columns, np.concatenate([links, own]))
