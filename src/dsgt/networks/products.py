"""The product W v, by the fastest way for a kind of v: tensors of one precision on one device, or NumPy arrays."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from dsgt.core import Matrix
from dsgt.topologies.matrix import is_averaging, to_dense

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

SPARSE_BELOW = 0.1
"""Share of nonzero weights below which a sparse product is the faster one (benchmarks/simulator.py)."""
SPARSE_FROM = 128
"""For fewer nodes either product is cheap, and the dense one has the lower overhead."""


class TensorProduct:
    """W on a device; as a sparse matrix where that is faster."""

    def __init__(self, W: Matrix, dtype: torch.dtype, device: torch.device) -> None:
        self._matrix = None if is_averaging(W) else _matrix(W, dtype).to(device)
        """None: W averages."""
        self._adds_exactly: dict[tuple[torch.Size, int], bool] = {}

    def times(self, v: Tensor, out: Tensor | None) -> Tensor:
        """W v, in ``out`` or, for None, in fresh memory."""
        if self._matrix is not None:
            return torch.mm(self._matrix, v, out=out)
        mean = v.mean(dim=0, keepdim=True).expand_as(v)
        return mean.clone() if out is None else out.copy_(mean)

    def add_times(self, v: Tensor, total: Tensor) -> bool:
        """total += W v by BLAS's own multiply-and-add, which saves a pass over memory. Returns False, and does nothing,
        where BLAS would round differently: whether somebody has looked at W v must not change a run."""
        case = (v.shape, torch.get_num_threads())
        if case not in self._adds_exactly:
            self._adds_exactly[case] = self._try(v)
        if self._adds_exactly[case]:
            assert self._matrix is not None
            total.addmm_(self._matrix, v)
        return self._adds_exactly[case]

    def _try(self, like: Tensor) -> bool:
        """BLAS chooses its kernel by the shape, so both ways are tried once; with random numbers and not with those of
        the run, which may be zeros."""
        if self._matrix is None:
            return False
        draw = torch.Generator(like.device).manual_seed(0)
        v, total = (torch.rand(like.shape, generator=draw, dtype=like.dtype, device=like.device) for _ in range(2))
        apart = torch.mm(self._matrix, v).add_(total)
        return torch.equal(total.addmm_(self._matrix, v), apart)


class ArrayProduct:
    """W for NumPy arrays, which the engine uses for small simulations."""

    def __init__(self, W: Matrix, dtype: np.dtype[Any]) -> None:
        self._matrix = None if is_averaging(W) else to_dense(W).astype(dtype)

    def times(self, v: Array) -> Array:
        if self._matrix is None:
            mean: Array = v.mean(axis=0, keepdims=True)
            return mean.repeat(len(v), axis=0)
        product: Array = self._matrix @ v
        return product


def _matrix(W: Matrix, dtype: torch.dtype) -> Tensor:
    n = W.shape[0]
    nonzero = np.count_nonzero(W) if isinstance(W, np.ndarray) else W.nnz
    if n < SPARSE_FROM or nonzero > SPARSE_BELOW * n * n:
        return torch.as_tensor(to_dense(W)).to(dtype)
    csr = scipy.sparse.csr_array(W)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(csr.data).to(dtype),
            size=(n, n),
            check_invariants=False,
        )
