"""Empirical risk minimisation: what every problem made of samples, shards and a way of sampling has in common."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from dsgt.data.batches import Batches
from dsgt.data.samples import DataLike, Samples, as_samples
from dsgt.data.sampling import Full, Sampling
from dsgt.data.shards import OwnShard, Shards
from dsgt.problems.base import Oracle, Problem

AT_ONCE = 1 << 22
"""How many numbers an evaluation holds at a time, so that measuring needs no more memory than training."""


class EmpiricalRisk(Problem):
    """F(x) = (1/N) sum of all samples' losses + (l2/2) |x|^2, its samples spread over n nodes in any way."""

    def __init__(self, data: DataLike, shards: Shards, sampling: Sampling, test: DataLike | None, l2: float) -> None:
        self.data = as_samples(data)
        self.test = None if test is None else as_samples(test)
        if (held := len(shards.order)) != len(self.data):
            raise ValueError(
                f"the shards hold {held} samples and the data set {len(self.data)}: partition this data set"
            )
        if self.test is not None and self.test.features.shape[1:] != self.data.features.shape[1:]:
            raise ValueError(
                f"a test sample has shape {tuple(self.test.features.shape[1:])} and a training sample "
                f"{tuple(self.data.features.shape[1:])}; they must agree"
            )
        if not (l2 >= 0 and l2 < float("inf")):
            raise ValueError(f"l2 is {l2}, but a penalty is a finite number of at least 0")
        self.shards = shards.to(self.data.features.device)
        self.sampling = sampling
        self.l2 = l2
        self.nodes = len(shards)
        self.samples = shards.samples
        self.batch = sampling.batch_sizes(self.shards.sizes)
        self.epochs_per_round = float(self.batch.sum()) / self.samples
        self.node: int | None = shards.node if isinstance(shards, OwnShard) else None

    def __getitem__(self, i: int) -> Self:
        if self.node is not None:
            raise TypeError(f"this is already node {self.node}'s own part")
        part = copy.copy(self)
        part.node = range(self.nodes)[i]
        part.__dict__.pop("held", None)
        return part

    @property
    def weights(self) -> Tensor:
        """n N_i / N for every node, (n,): how much a node's mean gradient counts. 1 where all shards are equal."""
        return (
            self.shards.sizes.to(self.data.features.dtype) * self.nodes / self.samples
        )  # in this order: exactly 1 for 1 node

    @cached_property
    def held(self) -> Samples:
        """The samples held here: all of them, or node i's."""
        if self.node is None:
            return self.data
        rows = self.shards[self.node]
        return Samples(self.data.features[rows], self.data.targets[rows])

    def batches(self, seed: int) -> Batches:
        """What the nodes here draw."""
        return Batches(self.shards, self.sampling, seed, self.node)

    def oracle(self, seed: int) -> Oracle:
        gradients = self._gradients(self.batches(seed))
        expected, dtype, l2 = torch.Size((*self._lead, self.dim)), self.data.features.dtype, self.l2
        stacked = self.node is None

        def oracle(x: Tensor, k: int) -> Tensor:
            if x.shape != expected or x.dtype != dtype:
                raise ValueError(
                    f"the models have shape {tuple(x.shape)} and dtype {x.dtype}, but this problem computes with "
                    f"{tuple(expected)} and {dtype}"
                )
            g = gradients(x, k) if stacked else gradients(x[None], k)[0]
            return g.add_(x, alpha=l2) if l2 else g

        return oracle

    @property
    def _lead(self) -> tuple[int, ...]:
        return (self.nodes,) if self.node is None else ()

    @abstractmethod
    def _gradients(self, batches: Batches) -> Oracle:
        """(x, k) -> every node's weighted gradient without the l2 term, stacked, in a fresh tensor."""

    @abstractmethod
    def _losses(self, x: Tensor, data: Samples) -> Tensor:
        """The sum of the losses on these samples, for each row: (r, m) -> (r,)."""

    @abstractmethod
    def _hits(self, x: Tensor, data: Samples) -> Tensor:
        """How many of these samples are classified correctly, for each row: (r, m) -> (r,)."""

    def loss(self, x: Tensor) -> Tensor:
        data = self.held
        flat = x.reshape(-1, self.dim)
        mean = self._losses(flat, data) / len(data)
        if self.l2:
            mean = mean + self.l2 / 2 * flat.square().sum(dim=-1)
        return mean.reshape(x.shape[:-1])

    def accuracy(self, x: Tensor) -> Tensor:
        if self.test is None or not self.test.labelled:
            raise TypeError(
                f"accuracy needs labelled test samples: give {type(self).__name__}(..., test=...), or measure the loss"
            )
        hits = self._hits(x.reshape(-1, self.dim), self.test)
        return hits.reshape(x.shape[:-1]).to(x.dtype) / len(self.test)

    def identity(self) -> Mapping[str, Tensor | str]:
        found: dict[str, Tensor | str] = {
            "features": self.data.features,
            "targets": self.data.targets,
            "shards": self.shards.order,
            "shard sizes": self.shards.sizes,
            "sampling": str(self.sampling),
            "l2": str(self.l2),
        }
        if self.test is not None:
            found |= {"test features": self.test.features, "test targets": self.test.targets}
        return found

    def full(self) -> Self:
        """The same problem with exact gradients: every node uses all its samples in every round."""
        exact = copy.copy(self)
        exact.sampling, exact.batch, exact.epochs_per_round = Full(), self.shards.sizes, 1.0
        return exact


def pieces(count: int, cost: int) -> list[slice]:
    """0 ... count - 1 in pieces, each of about AT_ONCE numbers where one of them costs ``cost``."""
    step = max(1, AT_ONCE // max(1, cost))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]


def check_labels(data: Samples, classes: int, what: str) -> None:
    if data.classes > classes:
        sample = int((data.targets >= classes).nonzero()[0])
        raise ValueError(
            f"{what} sample {sample} has the label {int(data.targets[sample])}, but there are {classes} classes: "
            f"labels are 0 ... {classes - 1}"
        )
