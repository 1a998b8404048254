"""The product W v, by the fastest way for a kind of v: tensors of one precision on one device, or NumPy arrays.

What is prepared for a matrix is prepared once: a few matrices may come again and again, or always new ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from dsgt.core import Matrix
from dsgt.topologies.matrix import is_averaging, to_dense, vectors_sent

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

SPARSE_BELOW = 0.1
"""Share of nonzero weights below which a sparse product is the faster one (benchmarks/simulator.py)."""
SPARSE_FROM = 128
"""For fewer nodes either product is cheap, and the dense one has the lower overhead."""


TRIED_FROM = 3
"""How often a matrix comes before a trial of what BLAS does with it pays: a random one comes in one round only."""
MATRICES = 64
"""So many of a network's matrices are kept prepared."""

Prepared = TypeVar("Prepared")


class PerMatrix(Generic[Prepared]):
    """What is prepared for a matrix, kept for those that came last."""

    def __init__(self, prepare: Callable[[Matrix], Prepared]) -> None:
        self._prepare = prepare
        self._kept: dict[int, tuple[Matrix, Prepared]] = {}

    def __call__(self, W: Matrix) -> Prepared:
        kept = self._kept.get(id(W))  # the matrix is kept too, so that no other one gets its id
        if kept is None:
            if len(self._kept) == MATRICES:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[id(W)] = (W, self._prepare(W))
        return kept[1]


class Products:
    """Everything that a matrix is multiplied with."""

    def __init__(self, W: Matrix) -> None:
        self.W, self._nodes = W, W.shape[0]
        self.vectors = vectors_sent(W)
        """How many vectors all nodes together send in a mixing."""
        self._of_tensors: dict[tuple[torch.dtype, torch.device], TensorProduct] = {}
        self._of_arrays: dict[np.dtype[Any], ArrayProduct] = {}

    def product(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        """W v, in ``out`` or, for None, in fresh memory."""
        if len(v) != self._nodes:
            raise ValueError(f"the first axis of {tuple(v.shape)} is not the node axis of {self._nodes} nodes")
        if isinstance(v, np.ndarray):  # "Tensor" in the types of a method is then an array
            return self._array_product(v)
        return self._tensor_product(v).times(v, out)

    def add_product(self, v: Tensor, total: Tensor) -> bool:
        """total += W v without memory for W v; False, and nothing done, where that would change the last bits."""
        return self._tensor_product(v).add_times(v, total)

    def flow(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        """(W - I) v = (W - I)(v - 1 v_0'): the subtraction leaves only differences to be rounded."""
        d = v - v[:1]
        product = self.product(d, out)
        product -= d
        return product

    def _tensor_product(self, v: Tensor) -> TensorProduct:
        product = self._of_tensors.get((v.dtype, v.device))
        if product is None:
            product = self._of_tensors[v.dtype, v.device] = TensorProduct(self.W, v.dtype, v.device)
        return product

    def _array_product(self, v: Array) -> Any:
        product = self._of_arrays.get(v.dtype)
        if product is None:
            product = self._of_arrays[v.dtype] = ArrayProduct(self.W, v.dtype)
        return product.times(v)


class TensorProduct:
    """W on a device; as a sparse matrix where that is faster."""

    def __init__(self, W: Matrix, dtype: torch.dtype, device: torch.device) -> None:
        self._matrix = None if is_averaging(W) else _matrix(W, dtype).to(device)
        """None: W averages."""
        self._adds_exactly: dict[tuple[torch.Size, int], bool] = {}
        self._asked = 0

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
        self._asked += 1
        if self._asked < TRIED_FROM:
            return False
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
        product: Array = self._matrix.dot(v)  # what @ does, started in two thirds of its time
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
