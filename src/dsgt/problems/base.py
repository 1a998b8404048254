"""What a problem is: the same object serves the simulator and, through ``problem[i]``, the real node i."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from dsgt.core import Local
from dsgt.layout import Layout, Place

GradientFunction: TypeAlias = Callable[[Tensor, int], Tensor]
"""``gradient(x, k)``: every node's stochastic gradient at its own model, in round k."""


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
    batch: Tensor
    """b_i, (n,): how many samples each node draws in a round, or the expected number where it varies."""
    epochs_per_round: float
    """M / N, the share of all samples that one round looks at."""

    remembers: bool = False
    """Whether nodes keep more than their models: BatchNorm's running statistics."""

    @abstractmethod
    def __getitem__(self, i: int) -> Problem:
        """Node i's own part."""

    @abstractmethod
    def start(self, seed: int) -> Tensor:
        """A model (m,) to start from, equal at all nodes."""

    @abstractmethod
    def oracle(self, seed: int) -> GradientFunction:
        """Gradients s_i = (n N_i / N) (mean gradient of node i's batch), so that mean(s) is an unbiased gradient of the
        mean loss over all samples, and ``lr`` is the learning rate of centralized SGD with the global batch M.

        For batches b_i = eta N_i this is (n b_i / M) times the mean gradient. Where eta N_i is no whole number b_i is
        rounded, and the weight n N_i / N stays exact."""

    def runs(self, seeds: Sequence[int]) -> GradientFunction:
        """For one node, ``problem[i]``: its gradients in several runs at once, (r, m) -> (r, m). Run r has a model of
        its own and draws what ``oracle(seeds[r])`` does."""
        oracles = [self.oracle(seed) for seed in seeds]
        return lambda x, k: torch.stack([oracle(row, k) for oracle, row in zip(oracles, x, strict=True)])

    def local(self, seed: int) -> Local:
        """All that the nodes here can compute of their own f_i, for oracles that ask for more than ``oracle`` gives."""
        return Local(self.oracle(seed), torch.arange(self.nodes)[:, None], seed)

    def remembering(self, kept: Mapping[str, Tensor]) -> Problem:
        """The same problem, its models measured with what all nodes remember (``Local.kept``, a row a node): the first
        n rows of n or more are the nodes' models, and any other the mean model."""
        return self

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
