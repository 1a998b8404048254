"""Where nodes live: a network mixes over its weights, counts what is sent, and looks at all nodes at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from dsgt.core.messages import Pending, Sendable
from dsgt.core.mix import Mix
from dsgt.core.weights import Matrix, Weights


@dataclass
class Traffic:
    """What the nodes of this process have sent so far."""

    mixings: int = 0
    """Each sends one message to every neighbour."""
    bytes: int = 0


class Network(ABC):
    """Who mixes with whom, and where the nodes live. Closing it drains the messages still in flight."""

    nodes: int
    """How many nodes the network joins."""
    node: int | None = None
    """Which node lives in this process; None where all of them do."""
    weights: Weights
    """Who mixes with whom."""

    def __init__(self) -> None:
        self.traffic = Traffic()

    def at(self, k: int) -> Mix:
        """The mixing of round k. A message that a method sends in round k travels over this network."""
        return self.round(k, self.weights)

    def round(self, k: int, weights: Weights) -> Mix:
        """The mixing of round k with these weights instead of the network's own."""
        raise TypeError(f"{type(self).__name__} has weights of its own and cannot be given {weights!r}")

    def over(self, weights: Weights) -> Network:
        """The same nodes in the same place with other weights."""
        return Over(self, weights)

    @property
    def matrices(self) -> Sequence[Matrix]:
        """One pass through the weight matrices; their mean where they are random."""
        return self.weights.matrices

    def __call__(self, v: Sendable) -> Tensor:
        """Mix by hand, where it is the same in every round."""
        return self._by_hand()(v)

    def start(self, v: Sendable) -> Pending:
        return self._by_hand().start(v)

    def flow(self, v: Sendable) -> Tensor:
        return self._by_hand().flow(v)

    def _by_hand(self) -> Mix:
        if self.weights.changes:
            raise ValueError(f"{self.weights!r} changes from round to round; mix with network.at(k) of round k")
        return self.round(0, self.weights)

    @abstractmethod
    def gather(self, v: Tensor) -> Tensor:
        """The rows ``(n, m)`` of all nodes, on every node. For looking, not for training."""

    @abstractmethod
    def mean(self, v: Tensor) -> Tensor:
        """The mean ``(m,)`` over all nodes, on every node. For looking, not for training."""

    @property
    def bytes_sent(self) -> int:
        """By all nodes together. On real nodes all must ask at once."""
        if self.node is None:
            return self.traffic.bytes
        return round(float(self.mean(torch.tensor([self.traffic.bytes], dtype=torch.float64))) * self.nodes)

    @property
    def takes_arrays(self) -> bool:
        """Whether its mixings take NumPy arrays as well as tensors. A small simulation is then computed by NumPy."""
        return False

    def computed(self, k: int, gradients: float | Tensor = 1.0) -> None:  # noqa: B027 - for networks with a clock
        """Called by the loop when every node has computed its gradient of round k, which cost it as much as so many
        gradients of a drawn batch; a number for all nodes, or one for each of those that live here."""

    def progress(self) -> dict[str, Tensor]:
        """What a checkpoint must hold of a network besides the messages: what was sent, and what a clock shows."""
        return {"traffic": torch.tensor([self.traffic.mixings, self.traffic.bytes])}

    def restore(self, progress: dict[str, Tensor]) -> None:
        """Go on from there."""
        self.traffic.mixings, self.traffic.bytes = progress["traffic"].tolist()

    @property
    def lead(self) -> tuple[int, ...]:
        """What stands before m in the shape of this process's tensors: (n,) in a simulator, () on a real node."""
        return (self.nodes,) if self.node is None else ()

    def close(self) -> None:  # noqa: B027 - nothing to drain where messages never travel
        """Wait for every message in flight."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Around(Network):
    """A network seen in another way: what a subclass does not say, the inner network does."""

    def __init__(self, inner: Network) -> None:
        super().__init__()
        self.inner, self.weights = inner, inner.weights
        self.nodes, self.node = inner.nodes, inner.node
        self.traffic = inner.traffic

    @property
    def takes_arrays(self) -> bool:
        return self.inner.takes_arrays

    def round(self, k: int, weights: Weights) -> Mix:
        return self.inner.round(k, weights)

    def gather(self, v: Tensor) -> Tensor:
        return self.inner.gather(v)

    def mean(self, v: Tensor) -> Tensor:
        return self.inner.mean(v)

    def computed(self, k: int, gradients: float | Tensor = 1.0) -> None:
        self.inner.computed(k, gradients)

    def progress(self) -> dict[str, Tensor]:
        return self.inner.progress()

    def restore(self, progress: dict[str, Tensor]) -> None:
        self.inner.restore(progress)

    def close(self) -> None:
        self.inner.close()


class Over(Around):
    """The same nodes with other weights."""

    def __init__(self, inner: Network, weights: Weights) -> None:
        super().__init__(inner)
        if weights.nodes != inner.nodes:
            raise ValueError(f"{weights!r} joins {weights.nodes} nodes, but the network has {inner.nodes}")
        self.weights = weights
