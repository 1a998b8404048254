"""Every node in this process: a mixing is W @ v."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

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


class Dense(Network, Mix):
    """All nodes in this process. W may be a torch, NumPy or SciPy sparse matrix, or nested lists."""

    def __init__(self, W: MatrixLike) -> None:
        super().__init__()
        self.W = as_matrix(W)
        self.nodes = self.W.shape[0]
        self._vectors = vectors_sent(self.W)
        self.buffers = Buffers()
        self._products: dict[tuple[torch.dtype, torch.device], Product] = {}
        self._adds_exactly: dict[tuple[torch.Size, torch.dtype, int], bool] = {}

    @property
    def matrices(self) -> Sequence[Matrix]:
        return [self.W]

    def at(self, k: int) -> Mix:
        return self

    def start(self, v: Tensor) -> Pending:
        return Done(self.mix_into(v, self.buffers.large(v), flow=False))

    def start_flow(self, v: Tensor) -> Pending:
        return Done(self.mix_into(v, self.buffers.large(v), flow=True))

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
        return self._product_of(v)(v, out)

    def mix_into(self, v: Tensor, out: Tensor | None, *, flow: bool) -> Tensor:
        self.count(v)
        return self.flow_into(v, out) if flow else self.product_into(v, out)

    def send(self, v: Tensor) -> Sent:
        """As ``start``, but the product is computed where it is needed."""
        self.count(v)
        return Sent(self, v)

    def add_product(self, v: Tensor, total: Tensor) -> bool:
        """total += W v by the product itself, which saves a pass over memory; False, and nothing done, unless that is
        the same to the last bit. BLAS decides by shape and precision, so the first time both ways are tried."""
        multiply = self._product_of(v)
        if multiply.weights is None:
            return False
        case = (v.shape, v.dtype, torch.get_num_threads())
        if case not in self._adds_exactly:
            tried = total.clone().addmm_(multiply.weights, v)
            self._adds_exactly[case] = torch.equal(tried, total + multiply(v, None))
        if self._adds_exactly[case]:
            total.addmm_(multiply.weights, v)
        return self._adds_exactly[case]

    def flow_into(self, v: Tensor, out: Tensor | None) -> Tensor:
        """(W - I) v = (W - I)(v - 1 v_0'): the subtraction leaves only differences to be rounded."""
        d = v - v[:1]
        return self.product_into(d, out).sub_(d)

    def _product_of(self, v: Tensor) -> Product:
        product = self._products.get((v.dtype, v.device))
        if product is None:
            product = self._products[v.dtype, v.device] = product_by(self.W, v.dtype, v.device)
        return product


class Sent(Pending):
    """W v that is computed when somebody asks for it."""

    def __init__(self, dense: Dense, v: Tensor) -> None:
        self.dense, self.v = dense, v
        self._value: Tensor | None = None

    def wait(self) -> Tensor:
        if self._value is None:
            self._value = self.dense.product_into(self.v, None)
        return self._value


@dataclass(frozen=True)
class Product:
    """v -> W v, written into ``out`` where there is one."""

    weights: Tensor | None
    """None: W averages."""

    def __call__(self, v: Tensor, out: Tensor | None) -> Tensor:
        if self.weights is not None:
            return torch.mm(self.weights, v, out=out)
        mean = v.mean(dim=0, keepdim=True).expand_as(v)
        return mean.clone() if out is None else out.copy_(mean)


def product_by(W: Matrix, dtype: torch.dtype, device: torch.device) -> Product:
    """The product on this device, a sparse one where that is faster."""
    n = W.shape[0]
    if is_averaging(W):
        return Product(None)
    nonzero = np.count_nonzero(W) if isinstance(W, np.ndarray) else W.nnz
    if n < SPARSE_FROM or nonzero > SPARSE_BELOW * n * n:
        return Product(torch.as_tensor(to_dense(W)).to(device, dtype))
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
    return Product(sparse)
