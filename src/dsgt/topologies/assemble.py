"""A weight matrix from its entries: dense where it is small, sparse where that pays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy
from numpy.typing import ArrayLike

from dsgt.core import Matrix

Nodes: TypeAlias = "int | np.ndarray[Any, np.dtype[np.signedinteger[Any]]]"

SPARSE_FROM = 512
"""Above this many nodes, a matrix with fewer than 5 % of its entries is kept sparse."""


def assemble(n: int, i: ArrayLike, j: ArrayLike, w: ArrayLike) -> Matrix:
    """The symmetric W with the weight w on each edge {i, j}, and 1 - (the weights at a node) on the diagonal."""
    i, j, w = np.asarray(i, dtype=np.intp), np.asarray(j, dtype=np.intp), np.asarray(w, dtype=np.float64)
    own = 1 - np.bincount(i, w, minlength=n) - np.bincount(j, w, minlength=n)
    nodes = np.arange(n)
    return from_entries(n, np.concatenate([i, j, nodes]), np.concatenate([j, i, nodes]), np.concatenate([w, w, own]))


def from_entries(n: int, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> Matrix:
    """The n x n matrix with these entries. Entries given twice are added."""
    rows, columns, values = np.asarray(rows), np.asarray(columns), np.asarray(values, dtype=np.float64)
    sparse = scipy.sparse.csr_array(scipy.sparse.coo_array((values, (rows, columns)), shape=(n, n)))
    sparse.sum_duplicates()
    return sparse if kept_sparse(n, sparse.nnz) else np.asarray(sparse.toarray())


def kept_sparse(n: int, entries: int) -> bool:
    return n > SPARSE_FROM and entries < 0.05 * n * n


def paired(n: int, i: Nodes, j: Nodes, w: float) -> Matrix:
    """I - w sum (e_i - e_j)(e_i - e_j)' over pairs {i, j} none of which share a node: each moves by w to the other.

    Written row by row and not by ``assemble``, which sorts: for a network that has other pairs in every round."""
    matched, other = np.append(i, j), np.append(j, i)
    if not kept_sparse(n, n + len(matched)):
        W = np.eye(n)
        W[matched, matched], W[matched, other] = 1 - w, w
        return W
    entries = np.ones(n, dtype=np.int32)
    entries[matched] = 2
    ends = np.cumsum(entries, dtype=np.int32)
    columns, values = np.repeat(np.arange(n, dtype=np.int32), entries), np.ones(n + len(matched))
    second, first = ends[matched] - 1, ends[matched] - 2  # columns are in order within a row
    own, link = np.where(matched < other, (first, second), (second, first))
    columns[own], values[own] = matched, 1 - w
    columns[link], values[link] = other, w
    return scipy.sparse.csr_array((values, columns, np.append(np.int32(0), ends)), shape=(n, n))
