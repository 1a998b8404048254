"""Every node in this process: a mixing is W @ v."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dsgt.core import Done, Matrix, Mix, Network, Pending
from dsgt.networks.products import Array, ArrayProduct, TensorProduct
from dsgt.topologies.matrix import MatrixLike, as_matrix, vectors_sent


class Simulated(Mix):
    """A mixing whose nodes all live in this process. Whoever computes the round may say where W v is written, and may
    send now and multiply later. ``v`` may also be a NumPy array; then so is what arrives."""

    @property
    @abstractmethod
    def direct(self) -> bool:
        """Whether ``start`` is nothing but ``into``, so that it may be gone around. False for a subclass, which may
        have a ``start`` of its own."""

    @abstractmethod
    def into(self, v: Tensor, out: Tensor | None, *, flow: bool) -> Tensor:
        """W v, or (W - I) v for a flow, sent and waited for; in ``out`` or, for None, in fresh memory."""

    def together(self, *vs: Tensor) -> tuple[Tensor, ...]:
        if not isinstance(vs[0], np.ndarray):
            return super().together(*vs)
        mixed: Any = self(np.concatenate(vs, axis=-1))
        return tuple(np.split(mixed, np.cumsum([v.shape[-1] for v in vs[:-1]]), axis=-1))

    @abstractmethod
    def send(self, v: Tensor) -> Sent:
        """As ``start``, but W v is computed when it is needed; until then v must not change."""


class Dense(Network, Simulated):
    """All nodes in this process. W may be a torch, NumPy or SciPy sparse matrix, or nested lists."""

    def __init__(self, W: MatrixLike) -> None:
        super().__init__()
        self.W = as_matrix(W)
        self.nodes = self.W.shape[0]
        self._vectors = vectors_sent(self.W)
        self._tensor_products: dict[tuple[torch.dtype, torch.device], TensorProduct] = {}
        self._array_products: dict[np.dtype[Any], ArrayProduct] = {}

    @property
    def matrices(self) -> Sequence[Matrix]:
        return [self.W]

    @property
    def takes_arrays(self) -> bool:
        return self.direct

    @property
    def direct(self) -> bool:
        return type(self) is Dense

    def at(self, k: int) -> Mix:
        return self

    def start(self, v: Tensor) -> Pending:
        return Done(self.into(v, None, flow=False))

    def start_flow(self, v: Tensor) -> Pending:
        return Done(self.into(v, None, flow=True))

    def gather(self, v: Tensor) -> Tensor:
        return v

    def mean(self, v: Tensor) -> Tensor:
        return v.mean(dim=0)

    def into(self, v: Tensor, out: Tensor | None, *, flow: bool) -> Tensor:
        self.count(v)
        return self._flow(v, out) if flow else self.product(v, out)

    def send(self, v: Tensor) -> Sent:
        self.count(v)
        return Sent(self, v)

    def product(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        """W v, in ``out`` or, for None, in fresh memory."""
        if len(v) != self.nodes:
            raise ValueError(f"the first axis of {tuple(v.shape)} is not the node axis of {self.nodes} nodes")
        if isinstance(v, np.ndarray):  # "Tensor" in the types of a method is then an array
            return self._array_product(v)
        return self._tensor_product(v).times(v, out)

    def add_product(self, v: Tensor, total: Tensor) -> bool:
        """total += W v without memory for W v; False, and nothing done, where that would change the last bits."""
        return self._tensor_product(v).add_times(v, total)

    def _flow(self, v: Tensor, out: Tensor | None) -> Tensor:
        """(W - I) v = (W - I)(v - 1 v_0'): the subtraction leaves only differences to be rounded."""
        d = v - v[:1]
        product = self.product(d, out)
        product -= d
        return product

    def count(self, v: Tensor) -> None:
        """Every node sends its part of v."""
        traffic = self.traffic
        traffic.mixings += 1
        traffic.bytes += self._vectors * (v.nbytes // self.nodes)

    def _tensor_product(self, v: Tensor) -> TensorProduct:
        product = self._tensor_products.get((v.dtype, v.device))
        if product is None:
            product = self._tensor_products[v.dtype, v.device] = TensorProduct(self.W, v.dtype, v.device)
        return product

    def _array_product(self, v: Array) -> Any:
        product = self._array_products.get(v.dtype)
        if product is None:
            product = self._array_products[v.dtype] = ArrayProduct(self.W, v.dtype)
        return product.times(v)


class Sent(Pending):
    """W v that was sent, and is computed when somebody asks for it."""

    def __init__(self, dense: Dense, v: Tensor, arrive: Callable[[], None] = lambda: None) -> None:
        """arrive: what else happens when a node waits for the message, such as a clock that goes on."""
        self.dense, self.v, self.arrive = dense, v, arrive
        self._value: Tensor | None = None

    def wait(self) -> Tensor:
        self.arrive()
        return self.peek()

    def peek(self) -> Tensor:
        if self._value is None:
            self._value = self.dense.product(self.v)
        return self._value
