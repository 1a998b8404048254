"""The product W v, by the fastest way for a kind of v: tensors of one precision on one device, or NumPy arrays.

What is prepared for a matrix is prepared once: a few matrices may come again and again, or always new ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import scipy
import torch
from torch import Tensor

from dsgt.core import Matrix
from dsgt.networks.sparse import Array, SparseProduct, is_faster, nonzeros
from dsgt.topologies.matrix import is_averaging, links, to_dense

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
        self.averages = is_averaging(W) and self._nodes > 1
        self.links = links(W)
        """How many vectors all nodes together send in a mixing, where every message goes to a neighbour."""
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
    """W on a device. On a CPU the product is SciPy's where W is sparse enough, and torch's else."""

    def __init__(self, W: Matrix, dtype: torch.dtype, device: torch.device) -> None:
        self._W, self._dtype, self._device = W, dtype, device
        self._averages = is_averaging(W)
        self._nonzeros = nonzeros(W)
        self._kept: Tensor | None = None
        self._sparse: SparseProduct | None = None
        self._adds_exactly: dict[tuple[torch.Size, int], bool] = {}
        self._asked = 0

    def times(self, v: Tensor, out: Tensor | None) -> Tensor:
        """W v, in ``out`` or, for None, in fresh memory."""
        if self._averages:
            mean = v.mean(dim=0, keepdim=True).expand_as(v)
            return mean.clone() if out is None else out.copy_(mean)
        if self._by_rows(v):
            out = torch.empty_like(v, memory_format=torch.contiguous_format) if out is None else out
            self._rows.times(v.detach().numpy(), out.numpy())
            return out
        return torch.mm(self._matrix, v, out=out)

    def add_times(self, v: Tensor, total: Tensor) -> bool:
        """total += W v without memory for W v: row by row, or by BLAS's own multiply-and-add. Returns False, and does
        nothing, where BLAS would round differently: whether somebody has looked at W v must not change a run."""
        if self._averages:
            return False
        if self._by_rows(v):
            self._rows.add_times(v.detach().numpy(), total.numpy())
            return True
        case = (v.shape, torch.get_num_threads())
        self._asked += 1
        if self._asked < TRIED_FROM:
            return False
        if case not in self._adds_exactly:
            self._adds_exactly[case] = self._try(v)
        if self._adds_exactly[case]:
            total.addmm_(self._matrix, v)
        return self._adds_exactly[case]

    def _by_rows(self, v: Tensor) -> bool:
        if not (v.is_cpu and v.dtype in (torch.float32, torch.float64)) or (
            v.requires_grad and torch.is_grad_enabled()
        ):
            return False
        return is_faster(len(v), self._nonzeros, v.numel() // len(v))

    @property
    def _rows(self) -> SparseProduct:
        if self._sparse is None:
            self._sparse = SparseProduct(self._W, np.dtype(str(self._dtype).removeprefix("torch.")))
        return self._sparse

    @property
    def _matrix(self) -> Tensor:
        if self._kept is None:
            self._kept = _matrix(self._W, self._dtype).to(self._device)
        return self._kept

    def _try(self, like: Tensor) -> bool:
        """BLAS chooses its kernel by the shape, so both ways are tried once; with random numbers and not with those of
        the run, which may be zeros."""
        draw = torch.Generator(like.device).manual_seed(0)
        v, total = (torch.rand(like.shape, generator=draw, dtype=like.dtype, device=like.device) for _ in range(2))
        apart = torch.mm(self._matrix, v).add_(total)
        return torch.equal(total.addmm_(self._matrix, v), apart)


class ArrayProduct:
    """W for NumPy arrays, which the engine uses for small simulations."""

    def __init__(self, W: Matrix, dtype: np.dtype[Any]) -> None:
        self._averages = is_averaging(W)
        self._matrix = to_dense(W).astype(dtype)
        self._nonzeros = nonzeros(W)
        self._sparse = SparseProduct(W, dtype)

    def times(self, v: Array) -> Array:
        if self._averages:
            mean: Array = v.mean(axis=0, keepdims=True)
            return mean.repeat(len(v), axis=0)
        if is_faster(len(v), self._nonzeros, v.shape[-1]):
            product = np.empty(v.shape, v.dtype)
            self._sparse.times(v, product)
            return product
        by_blas: Array = self._matrix.dot(v)  # what @ does, started in two thirds of its time
        return by_blas


def _matrix(W: Matrix, dtype: torch.dtype) -> Tensor:
    """For a device that is no CPU, and for who differentiates."""
    if not is_faster(W.shape[0], nonzeros(W), 1):
        return torch.as_tensor(to_dense(W)).to(dtype)
    csr = scipy.sparse.csr_array(W)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(csr.data).to(dtype),
            size=csr.shape,
            check_invariants=False,
        )
