"""Whether a method may use a weight matrix, and what to do where it may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from dsgt.core import Matrix, Needs, Weights
from dsgt.late import csgraph
from dsgt.topologies.eigen import DENSE_MOST
from dsgt.topologies.spectrum import EDGE, is_above, rho_of_rounds, second_modulus, smallest_eigenvalue

TOLERANCE = 1e-6
"""How far a sum of weights may be from 1: a matrix that came through float32 passes, a wrong one does not."""


WHICH = "dsgt methods says which"
"""This room knows no method, and the list grows."""


KEPT = f"weights that keep all sums in every round, such as Lossy(W, p, both_ways=True), or another method: {WHICH}"


def check(who: str, needs: Needs, weights: Weights) -> None:
    """Refuse weights that the method cannot use, before any work starts."""
    for complaint in complaints(needs, weights):
        raise ValueError(f"{who} {complaint}")


def complaints(needs: Needs, weights: Weights) -> list[str]:
    """What keeps a method with these needs from using these weights; nothing where it may."""
    found = []
    if needs.static and weights.changes:
        given = f"{weights!r} changes" if weights.random else f"{len(weights.matrices)} weight matrices were given"
        found.append(
            f"needs a network that does not change, but {given}; use one matrix, or a method whose W need not be "
            f"static: {WHICH}"
        )
    if needs.push is not None:
        found += [f"{complaint} (this is the second matrix)" for complaint in complaints(needs.push, weights.push)]
    each = replace(needs, columns=False) if needs.mean_columns else needs
    for W in weights.single:
        found += _complaints(each, W, weights)
    for W in weights.matrices if needs.mean_columns else ():
        found += _complaints(needs, W, weights)
    found += _graph_complaints(needs, weights.matrices)
    if needs.rooted:
        return found or (_root_complaints(weights) if needs.push is not None else [])
    return found or _mixing_complaints(weights.matrices)


def _graph_complaints(needs: Needs, matrices: Sequence[Matrix]) -> list[str]:
    """Of who hears whom in some round."""
    if needs.graph == "any":
        return []
    n = matrices[0].shape[0]
    heard = sum(abs(scipy.sparse.csr_array(W)) for W in matrices) + scipy.sparse.eye_array(n, format="csr")
    edges = ((heard + heard.T).count_nonzero() - n) // 2
    if needs.graph == "tree" and edges > n - 1:
        return [
            f"needs a tree, in which {n} nodes have {n - 1} edges, but this network has {edges}; use the weights of "
            "topologies.path(n), star(n) or binary_tree(n)"
        ]
    if needs.graph == "complete" and heard.count_nonzero() < n * n:
        i, j = np.argwhere(heard.toarray() == 0)[0]
        return [
            f"needs everybody to hear everybody, but node {i} never hears node {j}; use topologies.averaging(n), or "
            "Lossy around it"
        ]
    return []


def _complaints(needs: Needs, W: Matrix, weights: Weights) -> list[str]:
    n = W.shape[0]
    if needs.average:
        off = abs(W - 1 / n).max() if isinstance(W, np.ndarray) else 1.0
        return [] if off < TOLERANCE else ["needs W = 1/n everywhere; use topologies.averaging(n)"]
    found = []
    if needs.rows:
        fix = f"topologies.metropolis(graph), or a method for column stochastic weights: {WHICH}"
        found += _sums(W.sum(axis=1), "row", weights, fix)
    if needs.columns:
        fix = "topologies.metropolis(graph)" if needs.rows else "topologies.push_weights(graph)"
        found += _sums(W.sum(axis=0), "column", weights, fix)
    if needs.symmetric and (gap := abs(W - W.T).max()) > TOLERANCE:
        drawn = f" drawn by {weights!r}" if weights.random else ""
        found.append(
            f"needs a symmetric W, but W[i, j] and W[j, i]{drawn} differ by up to {gap:.3g}; use "
            f"topologies.metropolis(graph), or a method whose W need not be symmetric: {WHICH}"
        )
    if not found and needs.floor is not None and n > 1:
        found += _too_low(smallest_eigenvalue(W), needs.floor)
    return found


def _too_low(low: float, floor: float) -> list[str]:
    if is_above(low, floor):
        return []
    edge = ", on the edge" if low > floor - EDGE else ""
    s = max(0.0, (floor - low) / (1 - low))
    return [
        f"needs the smallest eigenvalue of W above {floor:.4g}, but it is {low:.4g}{edge}; use "
        f"topologies.lift(W, {floor:.4g}), that is (1 - s) W + s I with s just above {s:.3g}"
    ]


def _sums(sums: Any, what: str, weights: Weights, fix: str) -> list[str]:
    off = np.abs(np.asarray(sums) - 1)
    i = int(off.argmax())
    if off[i] < TOLERANCE:
        return []
    asked, fix = ("W", fix) if not weights.random else (f"every W drawn by {weights!r}", KEPT)
    return [f"needs the {what}s of {asked} to sum to 1, but {what} {i} sums to {np.asarray(sums)[i]:.6g}; use {fix}"]


def _root_complaints(weights: Weights) -> list[str]:
    """Of both matrices together; i hears j where W[i, j]."""
    A, P = (sum(abs(scipy.sparse.csr_array(W)) for W in some.matrices) for some in (weights, weights.push))
    if any(_reached(A.T, v) == _reached(P, v) == weights.nodes for v in range(weights.nodes)):
        return []
    return [
        "needs a root, a node whose messages reach all others in the first matrix and whom those of all others reach "
        "in the second; use topologies.spanning_trees(graph)"
    ]


def _reached(links: Any, v: int) -> int:
    return len(csgraph.breadth_first_order(links, v, return_predecessors=False))


def _mixing_complaints(matrices: Sequence[Matrix]) -> list[str]:
    """rho < 1 over one pass through the matrices: without it the nodes never agree."""
    n = matrices[0].shape[0]
    union = scipy.sparse.csr_array(sum(abs(scipy.sparse.csr_array(W)) for W in matrices))
    parts, label = csgraph.connected_components(union, directed=True, connection="strong")
    if parts > 1:
        other = int((label != label[0]).argmax())
        return [
            f"needs a connected network, but no messages get both ways between nodes 0 and {other}: add edges, or "
            "train each part alone"
        ]
    nonnegative = all(W.min() >= 0 for W in matrices)
    if n == 1 or (nonnegative and all((W.diagonal() > 0).all() for W in matrices)):
        return []  # connected, nonnegative and with a positive diagonal: a product of such matrices is primitive
    doubly = all(abs(np.asarray(W.sum(axis=a)) - 1).max() < TOLERANCE for W in matrices for a in (0, 1))
    if doubly and nonnegative:
        factor = 0.0 if _everybody_is_averaged(matrices) else 1.0
    else:
        factor = rho_of_rounds(matrices) if doubly else second_modulus(matrices)
    # eigenvalues of many changing matrices are found by iteration, not to the last digit
    if factor < 1 - (1e-12 if n <= DENSE_MOST else EDGE):
        return []
    return [
        f"needs rho(W) < 1, but rho is {factor:.6g}: the disagreement does not shrink, because the weights are "
        "periodic or too large; give every node a positive weight to itself, for example (I + W)/2"
    ]


def _everybody_is_averaged(matrices: Sequence[Matrix]) -> bool:
    """Whether rho < 1 for the product P of nonnegative doubly stochastic matrices, without computing it.

    rho^2 is the second eigenvalue of P'P, whose diagonal is positive; so rho < 1 iff the graph of P'P is connected.
    Two nodes are joined there if what they send meets somewhere, after whichever round: if the graph with a copy of
    every node before and after each round, joined by who hears whom in it, is connected.
    """
    n, size = matrices[0].shape[0], matrices[0].shape[0] * (len(matrices) + 1)
    heard = [W.nonzero() for W in matrices]
    hearers = np.concatenate([i + n * (t + 1) for t, (i, _) in enumerate(heard)])
    senders = np.concatenate([j + n * t for t, (_, j) in enumerate(heard)])
    copies = scipy.sparse.csr_array((np.ones(len(hearers)), (hearers, senders)), shape=(size, size))
    return bool(csgraph.connected_components(copies, directed=False, return_labels=False) == 1)
