"""Empirical risk minimisation: what every problem made of samples, shards and a way of sampling has in common."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from dsgt.core import Local
from dsgt.data.batches import Batches, Drawn
from dsgt.data.parts import Parts
from dsgt.data.samples import DataLike, Samples, as_samples
from dsgt.data.sampling import Full, Sampling
from dsgt.data.shards import OwnShard, Shards
from dsgt.problems import lbfgs
from dsgt.problems.base import GradientFunction, Problem
from dsgt.problems.inverse import WHO, Counted, Inverse, Number, Solutions, accepted, goal

Which = TypeVar("Which")

AT_ONCE = 1 << 22
"""How many numbers an evaluation holds at a time, so that measuring needs no more memory than training."""


class EmpiricalRisk(Problem):
    """F(x) = (1/N) sum of all samples' losses + (l2/2) |x|^2, its samples spread over n nodes in any way."""

    is_function: bool = True
    """Whether a sample's loss depends on the model and the sample only: no dropout, no statistics of a batch."""
    convex: bool = False
    """Whether the losses are known to be convex and smooth, so that gradients can be inverted."""

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
        self.places = self.shards
        """Which rows of its tables are each node's, where a problem lays out the samples for itself."""
        self.sampling = sampling
        self.l2 = l2
        self.nodes = len(shards)
        self.samples = shards.samples
        self.batch = sampling.batch_sizes(self.shards.sizes)
        self.epochs_per_round = float(self.batch.sum()) / self.samples
        self.node: int | None = shards.node if isinstance(shards, OwnShard) else None
        self.looked_at: int | None = None
        """How many samples are measured, if not all."""

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
        return self.data.chosen(self.shards[self.node])

    @property
    def pieces_of_a_shard(self) -> int:
        """How many pieces the gradient of a whole shard is computed in, so that it needs little memory."""
        return 1

    def batches(self, seed: int) -> Batches:
        """What the nodes here draw."""
        return Batches(self.places, self.sampling, seed, self.node)

    def oracle(self, seed: int) -> GradientFunction:
        return self.gradient_of(self.batches(seed))

    def local(self, seed: int) -> Local:
        return Shard(self, self.oracle(seed), seed)

    def remembering(self, kept: Mapping[str, Tensor]) -> Self:
        return self

    def measured_on(self, count: int, seed: int = 0) -> Self:
        """The same problem, whose loss and accuracy are those on ``count`` of the training and of the test samples, at
        most, drawn once with this seed."""
        if self.node is not None or count < 1:
            raise ValueError(f"{count} samples to measure on; give at least 1, to the problem of all nodes")
        seen = self.measured_by(_some(self.held, count, seed))
        seen.test = None if self.test is None else _some(self.test, count, seed)
        seen.looked_at = count
        return seen

    def measured_by(self, samples: Samples) -> Self:
        """The same problem, whose loss is that of other samples than those it learns from."""
        seen = copy.copy(self)
        seen.__dict__["held"] = samples
        return seen

    def gradient_of(self, drawn: Drawn[Which]) -> Callable[[Tensor, Which], Tensor]:
        """(x, which) -> every node's gradient (n N_i / N) (mean gradient of these samples), at its own model."""
        return self._guarded(self._gradients(drawn))

    def _guarded(self, gradients: Callable[[Tensor, Which], Tensor]) -> Callable[[Tensor, Which], Tensor]:
        """With the l2 term, for the nodes here, and only for models that fit."""
        expected, dtype, l2 = torch.Size((*self._lead, self.dim)), self.data.features.dtype, self.l2
        stacked = self.node is None

        def gradient(x: Tensor, which: Which) -> Tensor:
            if x.shape != expected or x.dtype != dtype:
                raise ValueError(
                    f"the models have shape {tuple(x.shape)} and dtype {x.dtype}, but this problem computes with "
                    f"{tuple(expected)} and {dtype}"
                )
            g = gradients(x, which) if stacked else gradients(x[None], which)[0]
            return g.add_(x, alpha=l2) if l2 else g

        return gradient

    def inverses(self, q: int) -> Inverse:
        """Solves own x + weight (the gradient of part j without its penalty) = r, for the nodes here at once."""
        if not self.convex:
            raise self._lacks("conjugates and resolvents")
        gradient, l2 = self.gradient_of(Parts(self.places, q, self.node)), self.l2

        def inverse(r: Tensor, j: Tensor, own: Number, weight: Number, near: Tensor) -> Solutions:
            counted = Counted(lambda x: own * x + weight * (gradient(x, j) - l2 * x) - r)
            x = lbfgs.solve(near, counted, goal=goal(r))
            return Solutions(accepted(x, counted(x), r), counted.calls)

        return inverse

    def convexity(self) -> Tensor:
        """How strongly convex every f_i here is at least, (..., 1)."""
        if not self.convex:
            raise self._lacks("conjugates, nor how strongly convex a node's function is")
        return self.data.features.new_full((*self._lead, 1), self.l2)

    def smoothness_of(self, q: int) -> Tensor:
        """An L of each of the q parts of every f_i here, without its penalty, (..., q)."""
        raise TypeError(
            f"{type(self).__name__} does not compute how curved a node's function is; LeastSquares and Logistic do. "
            "Use one of these, or give the method its L"
        )

    def _lacks(self, what: str) -> Exception:
        return TypeError(f"{type(self).__name__} does not compute {what}; {WHO}. Use one of these, or another method")

    @property
    def _lead(self) -> tuple[int, ...]:
        return (self.nodes,) if self.node is None else ()

    @abstractmethod
    def _gradients(self, batches: Drawn[Which]) -> Callable[[Tensor, Which], Tensor]:
        """(x, which) -> every node's weighted gradient without the l2 term, stacked, in a fresh tensor."""

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
        if self.looked_at is not None:
            found["measured on"] = str(self.looked_at)
        if self.test is not None:
            found |= {"test features": self.test.features, "test targets": self.test.targets}
        return found

    def full(self) -> Self:
        """The same problem with exact gradients: every node uses all its samples in every round."""
        exact = copy.copy(self)
        exact.sampling, exact.batch, exact.epochs_per_round = Full(), self.shards.sizes, 1.0
        return exact


class Shard(Local):
    """What the nodes here can compute of their shards. f_i = (n N_i / N) (the mean loss of node i) + (l2/2) |x|^2.

    The mean of all f_i is F, and f_i is the mean of its q parts: part j is (n q / N) times the sum over its samples, so
    one q serves shards of all sizes."""

    def __init__(self, problem: EmpiricalRisk, gradient: GradientFunction, seed: int) -> None:
        nodes = torch.arange(problem.nodes, device=problem.data.features.device)
        rows = nodes[:, None] if problem.node is None else nodes[problem.node][None]
        super().__init__(gradient, rows, seed)
        self.problem = problem
        sizes, batch = problem.shards.sizes.double(), problem.batch.double()
        passes = (sizes / batch).cpu()
        alike = problem.node is None and bool((passes == passes[0]).all())  # a number is added faster than a tensor
        self.whole = float(passes[problem.node or 0]) if problem.node is not None or alike else passes
        self._cut: dict[int, Callable[[Tensor, Tensor], Tensor]] = {}
        self._inverses: dict[int, Inverse] = {}

    def check(self, wants: Sequence[str], q: int = 1) -> None:
        if "full" in wants or "part" in wants:
            self._check_function()
        if "part" in wants:
            Parts(self.problem.shards, q, self.problem.node)
        if not self.problem.convex and {"resolvent", "conjugate", "inverse"} & set(wants):
            raise self._lacks("conjugates and resolvents")

    def full(self, x: Tensor) -> Tensor:
        self._check_function()
        self.spent = self.spent + self.whole
        q = self.problem.pieces_of_a_shard
        if q == 1:
            return self._exact(x, 0)
        total = self._part(x, torch.zeros_like(self.rows), q)
        for j in range(1, q):
            total += self._part(x, torch.full_like(self.rows, j), q)
        return total / q

    @cached_property
    def _exact(self) -> GradientFunction:
        return self.problem.full().oracle(0)

    def part(self, x: Tensor, j: Tensor, q: int) -> Tensor:
        self._check_function()
        self.spent = self.spent + self.whole / q
        return self._part(x, j, q)

    def _part(self, x: Tensor, j: Tensor, q: int) -> Tensor:
        if q not in self._cut:
            self._cut[q] = self.problem.gradient_of(Parts(self.problem.places, q, self.problem.node))
        return self._cut[q](x, j)

    def _check_function(self) -> None:
        if not self.problem.is_function:
            raise TypeError(
                "this module draws or remembers (dropout, BatchNorm, augmentation), so a node's samples have no "
                "gradient of their own: use an oracle that asks for gradients of drawn batches, or GroupNorm and no "
                "dropout"
            )

    def inverse(self, r: Tensor, j: Tensor, q: int, own: Number, weight: Number, near: Tensor) -> Tensor:
        if q not in self._inverses:
            self._inverses[q] = self.problem.inverses(q)
        solutions = self._inverses[q](r, j, own, weight, near)
        self.spent = self.spent + solutions.gradients * self.whole / q
        return solutions.x

    def resolvent(self, v: Tensor, j: Tensor, q: int, lr: float) -> Tensor:
        return self.inverse(v, j, q, 1 + lr * self.problem.l2, lr, v)

    def conjugate(self, u: Tensor, near: Tensor) -> Tensor:
        return self.inverse(u, torch.zeros_like(self.rows), 1, self.problem.l2, 1.0, near)

    def penalty(self) -> float:
        return self.problem.l2

    def convexity(self) -> Tensor:
        return self.problem.convexity()

    def smoothness(self, q: int) -> Tensor:
        return self.problem.smoothness_of(q)

    def _lacks(self, what: str) -> Exception:
        return self.problem._lacks(what)


def _some(data: Samples, count: int, seed: int) -> Samples:
    return data.chosen(drawn_rows(len(data), count, seed).to(data.features.device))


def drawn_rows(total: int, count: int, seed: int) -> Tensor:
    """``count`` of so many samples, all if there are no more."""
    return torch.from_numpy(np.random.default_rng(seed).permutation(total)[:count].copy())


def pieces(count: int, cost: int) -> list[slice]:
    """0 ... count - 1 in pieces, each of about AT_ONCE numbers where one of them costs ``cost``."""
    step = max(1, AT_ONCE // max(1, cost))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]


def check_numbers(data: Samples, who: str) -> None:
    if data.labelled or data.targets.ndim != 1:
        raise TypeError(
            f"targets are {data.targets.dtype} of shape {tuple(data.targets.shape)}, but {who} takes one real number "
            "per sample; use targets.to(features.dtype), or Logistic for classes"
        )


def check_labels(data: Samples, classes: int, what: str) -> None:
    if data.classes > classes:
        sample = int((data.targets >= classes).nonzero()[0])
        raise ValueError(
            f"{what} sample {sample} has the label {int(data.targets[sample])}, but there are {classes} classes: "
            f"labels are 0 ... {classes - 1}"
        )
