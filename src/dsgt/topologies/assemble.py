"""A weight matrix from its entries: dense where it is small, sparse where that pays."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from dsgt.core import Matrix

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
    return sparse if n > SPARSE_FROM and sparse.nnz < 0.05 * n * n else np.asarray(sparse.toarray())
