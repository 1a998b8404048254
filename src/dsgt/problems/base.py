"""What a problem is: the same object serves the simulator and, through ``problem[i]``, the real node i."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from torch import Tensor

from dsgt.layout import Layout, Place

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
    samples: int
    """N, the number of samples of all nodes together."""
    epochs_per_round: float
    """M / N, the share of all samples that one round looks at."""

    @abstractmethod
    def __getitem__(self, i: int) -> Problem:
        """Node i's own part."""

    @abstractmethod
    def start(self, seed: int) -> Tensor:
        """A model (m,) to start from, equal at all nodes."""

    @abstractmethod
    def oracle(self, seed: int) -> Oracle:
        """Gradients s_i = (n N_i / N) (mean gradient of node i's batch), so that mean(s) is an unbiased gradient of the
        mean loss over all samples, and ``lr`` is the learning rate of centralized SGD with the global batch M.

        For batches b_i = eta N_i this is (n b_i / M) times the mean gradient. Where eta N_i is no whole number b_i is
        rounded, and the weight n N_i / N stays exact."""

    @abstractmethod
    def loss(self, x: Tensor) -> Tensor:
        """The mean loss over all samples held here, for each row: (..., m) -> (...)."""

    @abstractmethod
    def gradient(self, x: Tensor) -> Tensor:
        """The gradient of ``loss``, for each row: (..., m) -> (..., m)."""

    @property
    def optimum(self) -> Tensor | None:
        """The minimiser (m,), where it is known."""
        return None

    def identity(self) -> Mapping[str, Tensor | str]:
        """What tells this problem from others of its kind and size, by name: a checkpoint remembers a print of it."""
        return {}

    def made_of(self) -> Iterable[object]:
        """The objects whose program text decides what is computed, itself among them."""
        return (self,)

    def layout(self) -> Layout:
        """The names and shapes of a model's parameters, and where in the flat vector they are."""
        return Layout((Place.next_to("x", (self.dim,), 0),))

    def accuracy(self, x: Tensor) -> Tensor:
        """The share of the test samples that a model classifies correctly, for each row: (..., m) -> (...)."""
        raise TypeError(f"{type(self).__name__} has no test labels to be right about: measure its loss instead")
