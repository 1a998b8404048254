"""Every node in this process: a mixing is W @ v."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from dsgt.core import Done, Matrix, Mix, Network, Pending
from dsgt.networks.buffers import Buffers
from dsgt.topologies.matrix import MatrixLike, as_matrix, is_averaging, to_dense, vectors_sent

SPARSE_BELOW = 0.1
"""Share of nonzero weights below which a sparse product is the faster one (benchmarks/simulator.py)."""
SPARSE_FROM = 128
"""For fewer nodes either product is cheap, and the dense one has the lower overhead."""


Product: TypeAlias = Callable[[Tensor, Tensor | None], Tensor]
"""(v, out) -> W v, written into out where there is one."""


class Dense(Network, Mix):
    """All nodes in this process. W may be a torch, NumPy or SciPy sparse matrix, or nested lists."""

    def __init__(self, W: MatrixLike) -> None:
        super().__init__()
        self.W = as_matrix(W)
        self.nodes = self.W.shape[0]
        self._vectors = vectors_sent(self.W)
        self.buffers = Buffers()
        self._multiply: dict[tuple[torch.dtype, torch.device], Product] = {}

    @property
    def matrices(self) -> Sequence[Matrix]:
        return [self.W]

    def at(self, k: int) -> Mix:
        return self

    def start(self, v: Tensor) -> Pending:
        return Done(self._product(v))

    def start_flow(self, v: Tensor) -> Pending:
        self.count(v)
        return Done(self.flow_into(v, self.buffers.large(v)))

    def gather(self, v: Tensor) -> Tensor:
        return v

    def mean(self, v: Tensor) -> Tensor:
        return v.mean(dim=0)

    def count(self, v: Tensor) -> None:
        """Every node sends its part of v."""
        traffic = self.traffic
        traffic.mixings += 1
        traffic.bytes += self._vectors * (v.nbytes // self.nodes)

    def product_into(self, v: Tensor, out: Tensor | None) -> Tensor:
        """W v, in ``out`` or, for None, in fresh memory."""
        if v.shape[0] != self.nodes:
            raise ValueError(f"the first axis of {tuple(v.shape)} is not the node axis of {self.nodes} nodes")
        multiply = self._multiply.get((v.dtype, v.device))
        if multiply is None:
            multiply = self._multiply[v.dtype, v.device] = product(self.W, v.dtype, v.device)
        return multiply(v, out)

    def flow_into(self, v: Tensor, out: Tensor | None) -> Tensor:
        """(W - I) v = (W - I)(v - 1 v_0'): the subtraction leaves only differences to be rounded."""
        d = v - v[:1]
        return self.product_into(d, out).sub_(d)

    def _product(self, v: Tensor) -> Tensor:
        self.count(v)
        return self.product_into(v, self.buffers.large(v))


def product(W: Matrix, dtype: torch.dtype, device: torch.device) -> Product:
    """v -> W v on this device, by a sparse product where that is faster."""
    n = W.shape[0]
    if is_averaging(W):
        return average
    nonzero = np.count_nonzero(W) if isinstance(W, np.ndarray) else W.nnz
    if n < SPARSE_FROM or nonzero > SPARSE_BELOW * n * n:
        dense = torch.as_tensor(to_dense(W)).to(device, dtype)
        return lambda v, out: torch.mm(dense, v, out=out)
    csr = scipy.sparse.csr_array(W)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        sparse = torch.sparse_csr_tensor(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(csr.data).to(dtype),
            size=(n, n),
            check_invariants=False,
        ).to(device)
    return lambda v, out: torch.mm(sparse, v, out=out)


def average(v: Tensor, out: Tensor | None) -> Tensor:
    mean = v.mean(dim=0, keepdim=True).expand_as(v)
    return mean.clone() if out is None else out.copy_(mean)
