"""What a problem is: the same object serves the simulator and, through ``problem[i]``, the real node i."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

Oracle: TypeAlias = Callable[[Tensor, int], Tensor]
"""``oracle(x, k)``: every node's stochastic gradient at its own model, in round k."""


class Problem(ABC):
    """The mean loss over all samples of all nodes, known to each node only through its own samples.

    A problem of n nodes takes and gives stacked tensors (n, m); ``problem[i]``, what node i alone knows, takes and
    gives tensors (m,). Both draw the same samples for node i, because its stream depends on (seed, i) only.
    """

    nodes: int
    dim: int
    """m, the number of parameters of a model."""
    optimum: Tensor | None = None
    """The minimiser (m,), where it is known."""

    @abstractmethod
    def __getitem__(self, i: int) -> Problem:
        """Node i's own part."""

    @abstractmethod
    def start(self, seed: int) -> Tensor:
        """A model (m,) to start from, equal at all nodes."""

    @abstractmethod
    def oracle(self, seed: int) -> Oracle:
        """Gradients s_i = (n b_i / M) (mean gradient of node i's batch), so that mean(s) is the gradient of the mean
        loss over the union of the batches, and ``lr`` is the learning rate of centralized SGD on it."""

    @abstractmethod
    def loss(self, x: Tensor) -> Tensor:
        """The mean loss over all samples held here, for each row: (..., m) -> (...)."""

    @abstractmethod
    def gradient(self, x: Tensor) -> Tensor:
        """The gradient of ``loss``, for each row: (..., m) -> (..., m)."""
