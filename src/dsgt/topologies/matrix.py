"""Weight matrices in, from whatever holds them: one canonical form, and its basic checks."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy
import torch
from torch import Tensor

from dsgt.core import Matrix, Network, Weights

MatrixLike: TypeAlias = (
    "Tensor | np.ndarray[Any, Any] | scipy.sparse.sparray | scipy.sparse.spmatrix | list[list[float]]"
)


def as_matrix(W: MatrixLike) -> Matrix:
    """W as a float64 NumPy array, or as a CSR array where it came sparse; square, not empty, without NaN."""
    if isinstance(W, Network | Weights):
        raise TypeError(
            f"a weight matrix was expected, but {type(W).__name__} was given: Weights are made of matrices, and "
            "networks of Weights, as in TorchPeers(Cycle([W0, W1]))"
        )
    if isinstance(W, Tensor):
        W = W.detach().cpu().double()
        if W.layout != torch.strided:
            coo = W.to_sparse_coo().coalesce()
            W = scipy.sparse.coo_array((coo.values().numpy(), tuple(coo.indices().numpy())), shape=tuple(W.shape))
        else:
            W = W.numpy()
    matrix: Matrix
    if scipy.sparse.issparse(W):
        matrix = scipy.sparse.csr_array(W, dtype=np.float64)
        entries = matrix.data
    else:
        matrix = np.array(W, dtype=np.float64)
        entries = matrix
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(
            f"W has shape {tuple(matrix.shape)}, but a weight matrix is square: one row and column per node"
        )
    if not np.isfinite(entries).all():
        i = int(np.argwhere(~np.isfinite(np.asarray(matrix.sum(axis=1))))[0, 0])
        raise ValueError(f"W has an entry that is not a finite number in row {i}; every weight must be finite")
    return matrix


def to_dense(W: Matrix) -> np.ndarray[Any, np.dtype[np.float64]]:
    return W if isinstance(W, np.ndarray) else np.asarray(W.toarray())


def is_averaging(W: Matrix) -> bool:
    """Whether W is 1/n everywhere, so that one all-reduce does what it does."""
    return isinstance(W, np.ndarray) and bool(np.abs(W - 1 / len(W)).max() < 1e-12)


def links(W: Matrix) -> int:
    """How many messages one mixing sends: the nonzero weights between different nodes."""
    if isinstance(W, np.ndarray):
        return int(np.count_nonzero(W) - np.count_nonzero(np.diagonal(W)))
    return int(W.count_nonzero() - np.count_nonzero(W.diagonal()))
