"""Weight matrices in, from whatever holds them: one canonical form, and its basic checks."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from torch import Tensor

from dsgt.core import Matrix

MatrixLike: TypeAlias = "Tensor | np.ndarray[Any, Any] | scipy.sparse.sparray | scipy.sparse.spmatrix | list[list[float]]"


def as_matrix(W: MatrixLike) -> Matrix:
    """W as a float64 NumPy array, or as a CSR array where it came sparse; square, not empty, without NaN."""
    if isinstance(W, Tensor):
        W = W.detach().cpu()
        if W.layout is not Tensor([]).layout:
            W = scipy.sparse.coo_array((W.to_sparse_coo().coalesce().values(), W.to_sparse_coo().coalesce().indices()))
    matrix: Matrix
    if scipy.sparse.issparse(W):
        matrix = scipy.sparse.csr_array(W, dtype=np.float64)
        entries = matrix.data
    else:
        matrix = np.array(W, dtype=np.float64)
        entries = matrix
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"W has shape {tuple(matrix.shape)}, but a weight matrix is square: one row and column per node")
    if not np.isfinite(entries).all():
        i = int(np.argwhere(~np.isfinite(np.asarray(matrix.sum(axis=1))))[0, 0])
        raise ValueError(f"W has an entry that is not a finite number in row {i}; every weight must be finite")
    return matrix


SPARSE_FROM = 512
"""Above this many nodes, a matrix with fewer than 5 % of its entries is kept sparse."""


def assemble(n: int, i: ArrayLike, j: ArrayLike, w: ArrayLike) -> Matrix:
    """The symmetric W with the weight w on each edge {i, j}, and 1 - (the weights at a node) on the diagonal."""
    i, j, w = np.asarray(i, dtype=np.intp), np.asarray(j, dtype=np.intp), np.asarray(w, dtype=np.float64)
    own = 1 - np.bincount(i, w, minlength=n) - np.bincount(j, w, minlength=n)
    nodes = np.arange(n)
    return from_entries(n, np.concatenate([i, j, nodes]), np.concatenate([j, i, nodes]), np.concatenate([w, w, own]))


def from_entries(n: int, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> Matrix:
    """A matrix from its entries: CSR where that pays, else dense. Never dense in between."""
    rows, columns, values = np.asarray(rows), np.asarray(columns), np.asarray(values, dtype=np.float64)
    if n > SPARSE_FROM and len(values) < 0.05 * n * n:
        return scipy.sparse.csr_array(scipy.sparse.coo_array((values, (rows, columns)), shape=(n, n)))
    W = np.zeros((n, n))
    W[rows, columns] = values
    return W
