"""Every node in this process: a mixing is W @ v."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dsgt.core import Done, Matrix, Mix, Network, Pending
from dsgt.networks.buffers import Buffers
from dsgt.networks.weights import Weights
from dsgt.topologies.matrix import MatrixLike, as_matrix, vectors_sent


class Dense(Network, Mix):
    """All nodes in this process. W may be a torch, NumPy or SciPy sparse matrix, or nested lists."""

    def __init__(self, W: MatrixLike) -> None:
        super().__init__()
        self.W = as_matrix(W)
        self.nodes = self.W.shape[0]
        self._vectors = vectors_sent(self.W)
        self.buffers = Buffers()
        self._by_kind: dict[tuple[torch.dtype, torch.device], Weights] = {}

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
        return self._weights(v).times(v, out)

    def mix_into(self, v: Tensor, out: Tensor | None, *, flow: bool) -> Tensor:
        self.count(v)
        return self.flow_into(v, out) if flow else self.product_into(v, out)

    def send(self, v: Tensor) -> Sent:
        """As ``start``, but the product is computed where it is needed."""
        self.count(v)
        return Sent(self, v)

    def add_product(self, v: Tensor, total: Tensor) -> bool:
        """total += W v without memory for W v; False, and nothing done, where that would change the last bits."""
        return self._weights(v).add_times(v, total)

    def flow_into(self, v: Tensor, out: Tensor | None) -> Tensor:
        """(W - I) v = (W - I)(v - 1 v_0'): the subtraction leaves only differences to be rounded."""
        d = v - v[:1]
        return self.product_into(d, out).sub_(d)

    def _weights(self, v: Tensor) -> Weights:
        weights = self._by_kind.get((v.dtype, v.device))
        if weights is None:
            weights = self._by_kind[v.dtype, v.device] = Weights(self.W, v.dtype, v.device)
        return weights


class Sent(Pending):
    """W v that is computed when somebody asks for it."""

    def __init__(self, dense: Dense, v: Tensor) -> None:
        self.dense, self.v = dense, v
        self._value: Tensor | None = None

    def wait(self) -> Tensor:
        if self._value is None:
            self._value = self.dense.product_into(self.v, None)
        return self._value
