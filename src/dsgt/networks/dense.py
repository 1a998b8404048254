"""Every node in this process: a mixing is W @ v."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dsgt.core import Done, Matrix, Mix, Network, Packed, Pending, Sendable, Weights, value_of, wire_of
from dsgt.networks.letters import Letters
from dsgt.networks.products import PerMatrix, Products
from dsgt.topologies.changing import as_weights
from dsgt.topologies.matrix import MatrixLike


class Simulated(Mix):
    """A mixing whose nodes all live in this process. Whoever computes the round may say where W v is written, and may
    send now and multiply later. ``v`` may also be a NumPy array; then so is what arrives."""

    @property
    @abstractmethod
    def direct(self) -> bool:
        """Whether ``start`` is nothing but ``into``, so that it may be gone around. False for a subclass, which may
        have a ``start`` of its own."""

    @abstractmethod
    def into(self, v: Sendable, out: Tensor | None, *, flow: bool) -> Tensor:
        """W v, or (W - I) v for a flow, sent and waited for; in ``out`` or, for None, in fresh memory."""

    def together(self, *vs: Tensor) -> tuple[Tensor, ...]:
        if not isinstance(vs[0], np.ndarray):
            return super().together(*vs)
        mixed: Any = self(np.concatenate(vs, axis=-1))
        return tuple(np.split(mixed, np.cumsum([v.shape[-1] for v in vs[:-1]]), axis=-1))

    @abstractmethod
    def send(self, v: Tensor) -> Sent:
        """As ``start``, but W v is computed when it is needed; until then v must not change."""


class Dense(Network):
    """All nodes in this process. W may be a torch, NumPy or SciPy sparse matrix, nested lists, or ``Weights``."""

    def __init__(self, W: MatrixLike | Weights) -> None:
        super().__init__()
        self.weights = as_weights(W)
        self.nodes = self.weights.nodes
        self._products = PerMatrix(Products)
        self._letters = PerMatrix(Letters)

    @property
    def W(self) -> Matrix:
        """The matrix of a network that does not change."""
        if self.weights.changes:
            raise ValueError(f"{self.weights!r} is not one matrix; ask weights.at(k) for that of round k")
        return self.weights.at(0)

    @property
    def takes_arrays(self) -> bool:
        return type(self) is Dense

    def round(self, k: int, weights: Weights) -> DenseMix:
        return DenseMix(self, weights, k, self._products(weights.at(k)))

    def letters(self, W: Matrix) -> Letters:
        return self._letters(W)

    def gather(self, v: Tensor) -> Tensor:
        return v

    def mean(self, v: Tensor) -> Tensor:
        return v.mean(dim=0)

    @cached_property
    def rows(self) -> Tensor:
        return torch.arange(self.nodes)[:, None]


@dataclass
class DenseMix(Simulated):
    """One round of it."""

    network: Dense
    _weights: Weights
    number: int
    products: Products

    @property
    def k(self) -> int:
        return self.number

    @property
    def nodes(self) -> int:
        return self.network.nodes

    @property
    def rows(self) -> Tensor:
        return self.network.rows

    @property
    def second(self) -> Weights | None:
        """Those of the second matrix, where there is one."""
        return None if self._weights.push is self._weights else self._weights.push

    @property
    def push(self) -> Mix:
        return self if self.second is None else self.network.round(self.number, self.second)

    @property
    def direct(self) -> bool:
        return type(self) is DenseMix

    def __call__(self, v: Sendable) -> Tensor:
        self.count(v)
        return self.products.product(value_of(v))

    def start(self, v: Sendable) -> Pending:
        return Done(self.into(v, None, flow=False))

    def start_flow(self, v: Sendable) -> Pending:
        return Done(self.into(v, None, flow=True))

    def into(self, v: Sendable, out: Tensor | None, *, flow: bool) -> Tensor:
        self.count(v, flow=flow)
        return self.products.flow(value_of(v), out) if flow else self.products.product(value_of(v), out)

    def send(self, v: Tensor) -> Sent:
        self.count(v)
        return Sent(self.products, v)

    def count(self, v: Sendable, *, flow: bool = False) -> None:
        """Every node sends its part of v: to its neighbours, or into an all-reduce."""
        network = self.network
        network.traffic.mixings += 1
        ring = 2 * (network.nodes - 1)  # of n messages, each an n-th of the vector
        messages = ring if self.all_reduces(v, flow=flow) else self.products.links
        network.traffic.bytes += messages * (wire_of(v).nbytes // network.nodes)

    def all_reduces(self, v: Sendable, *, flow: bool) -> bool:
        """Whether one all-reduce is what is sent: plain vectors, where W averages and the weights allow it."""
        return self.products.averages and self._weights.all_reduce and not (flow or isinstance(v, Packed))

    @property
    def letters(self) -> Letters:
        return self.network.letters(self.products.W)

    def start_exchange(self, v: Tensor) -> Pending:
        letters, traffic = self.letters, self.network.traffic
        traffic.mixings += 1
        traffic.bytes += letters.links * v.shape[-1] * v.element_size()
        return Done(letters.delivered(v))

    @property
    def hears(self) -> Tensor:
        return self.letters.hears

    @property
    def tells(self) -> Tensor:
        return self.letters.tells

    @property
    def weights(self) -> Tensor:
        return self.letters.weights

    @property
    def own(self) -> Tensor:
        return torch.from_numpy(np.array(self.products.W.diagonal()))[:, None]


class Sent(Pending):
    """W v that was sent, and is computed when somebody asks for it."""

    def __init__(self, products: Products, v: Tensor, arrive: Callable[[], None] = lambda: None) -> None:
        """arrive: what else happens when a node waits for the message, such as a clock that goes on."""
        self.products, self.v, self.arrive = products, v, arrive
        self._value: Tensor | None = None

    def wait(self) -> Tensor:
        self.arrive()
        return self.peek()

    def peek(self) -> Tensor:
        if self._value is None:
            self._value = self.products.product(self.v)
        return self._value
