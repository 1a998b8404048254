"""Linear models: a sample's loss depends on its scores A x only, so every gradient is a closed form.

    gradient of a batch = slope(x A') A,   slope = d loss / d scores

All nodes' batches are gathered at once and multiplied in one batched product; few, small operations per round. Scores
are (..., C, b), samples last: sums over few classes then run over whole vectors of samples.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import torch
from torch import Tensor

from dsgt.data.batches import Drawn
from dsgt.data.samples import DataLike, Samples
from dsgt.data.sampling import Sampling, segments
from dsgt.data.shards import Shards
from dsgt.layout import Layout, Place
from dsgt.problems import numpy_gradients
from dsgt.problems.base import GradientFunction
from dsgt.problems.erm import EmpiricalRisk, pieces

Which = TypeVar("Which")

MOST_PADDED = 1 << 16
"""Padding up to this many numbers costs less than starting a second batched product."""

MOST_KEPT = 1 << 21
"""Numbers in a data set whose features are kept with their intercept for measuring."""


@dataclass(frozen=True, eq=False)
class Group:
    """Nodes whose batches go through one batched product, the short ones padded with samples of weight 0."""

    nodes: Tensor | None
    """Which rows of x; None for all of them."""
    columns: Tensor | None
    """Which of the M drawn samples, (g, b); None where they need no padding."""
    weights: Tensor | float
    """How much each sample counts, (g, 1, b); a number where it is the same for all."""


class LinearModel(EmpiricalRisk):
    """A problem whose models are C score vectors: x is (C, d) flattened, or (C, d + 1) with an intercept."""

    def __init__(
        self,
        data: DataLike,
        shards: Shards,
        sampling: Sampling,
        *,
        scores: int,
        test: DataLike | None,
        intercept: bool,
        l2: float,
    ) -> None:
        super().__init__(data, shards, sampling, test, l2)
        if self.data.features.ndim != 2:
            raise ValueError(
                f"features have shape {tuple(self.data.features.shape)}, but a linear model takes vectors (N, d); use "
                "features.flatten(1)"
            )
        self.intercept = intercept
        self.scores = scores
        self.places = self.shards.side_by_side()
        self.rows = self._with_intercept(self._laid_out(self.data.features))
        """What is multiplied with a model, node after node: the features and, with an intercept, a 1."""
        self.targets = self._laid_out(self.data.targets)
        """The targets of these rows."""
        self.dim = scores * self.rows.shape[1]
        self._nothing = self.rows.new_empty(1)
        self._kept: dict[int, tuple[Samples, Tensor]] = {}

    def start(self, seed: int) -> Tensor:
        return self.data.features.new_zeros(self.dim)

    def layout(self) -> Layout:
        """Those of ``nn.Linear``. A class's weights and its intercept are one row here, but two parameters there."""
        columns, d = self.rows.shape[1], self.data.features.shape[1]
        weight = Place("weight", (self.scores, d), (columns, 1), 0)
        bias = Place("bias", (self.scores,), (columns,), d)
        return Layout((weight, bias) if self.intercept else (weight,))

    @abstractmethod
    def _slope_(self, z: Tensor, rows: Tensor) -> Tensor:
        """d loss / d scores, for the scores (..., C, b) of these samples, in this order; may overwrite z."""

    @abstractmethod
    def _loss_of_scores(self, z: Tensor, targets: Tensor) -> Tensor:
        """Each sample's loss: scores (..., C, N) and targets (N,) -> (..., N)."""

    def _laid_out(self, values: Tensor) -> Tensor:
        """Node after node: what a node draws together then lies together."""
        return values if self.shards.in_order else values.index_select(0, self.shards.order)

    def _with_intercept(self, features: Tensor) -> Tensor:
        return torch.cat([features, features.new_ones(len(features), 1)], dim=1) if self.intercept else features

    def _gradients(self, batches: Drawn[Which]) -> Callable[[Tensor, Which], Tensor]:
        if not batches.fixed:
            return lambda x, k: self._product(x, *padded(*batches.ragged(k), self._per_sample(batches)))
        groups = self._groups(batches)
        if batches.constant:
            kept = [(g, _columns(batches.rows(0), g, batches)) for g in groups]  # type: ignore[arg-type]  # any is right
            gathered = [self.rows.index_select(0, rows.flatten()).view(*rows.shape, -1) for _, rows in kept]

            def exact(x: Tensor, k: Which) -> Tensor:
                return _scatter(
                    x,
                    [
                        (g, self._multiply(_rows_of(x, g), A, rows, g.weights))
                        for (g, rows), A in zip(kept, gathered, strict=True)
                    ],
                )

            return exact
        if len(groups) == 1 and self._is_small(batches):
            return self._small_gradients(batches, groups[0])
        return lambda x, k: _scatter(
            x, [(g, self._product(_rows_of(x, g), _columns(batches.rows(k), g, batches), g.weights)) for g in groups]
        )

    def _product(self, x: Tensor, rows: Tensor, weights: Tensor | float) -> Tensor:
        """Gradients (g, m) at the models x (g, m) of the batches rows (g, b)."""
        A = self.rows.index_select(0, rows.view(-1)).view(*rows.shape, -1)
        return self._multiply(x, A, rows, weights)

    def _multiply(self, x: Tensor, A: Tensor, rows: Tensor, weights: Tensor | float) -> Tensor:
        slope = self._slope_(torch.bmm(x.view(-1, self.scores, A.shape[2]), A.mT), rows)
        if isinstance(weights, float):
            return torch.baddbmm(self._nothing, slope, A, beta=0, alpha=weights).view(x.shape)  # one pass less
        return torch.bmm(slope.mul_(weights), A).view(x.shape)

    def runs(self, seeds: Sequence[int]) -> GradientFunction:
        """Runs of one seed draw the same samples, so one product serves them all."""
        groups = [(seed, [r for r, s in enumerate(seeds) if s == seed]) for seed in dict.fromkeys(seeds)]
        gradients = [(self._of_one_seed(seed, len(rows)), rows) for seed, rows in groups]
        if len(groups) == 1:
            return gradients[0][0]

        def gradient(x: Tensor, k: int) -> Tensor:
            g = torch.empty_like(x)
            for of_seed, rows in gradients:
                g[rows] = of_seed(x[rows], k)
            return g

        return gradient

    def _of_one_seed(self, seed: int, runs: int) -> GradientFunction:
        assert self.node is not None
        batches, l2 = self.batches(seed), self.l2
        scale, C = float(self._per_sample(batches)[0]), self.scores

        def drawn(k: int) -> Tensor:
            return batches.rows(k) if batches.fixed else batches.ragged(k)[0]

        if self._is_small(batches, runs):
            return numpy_gradients.same_samples(self.rows, drawn, self._slope_, scores=C, scale=scale, l2=l2)
        kept = self.rows[drawn(0)] if self.sampling.constant else None

        def gradient(x: Tensor, k: int) -> Tensor:
            samples = drawn(k)
            A = self.rows.index_select(0, samples) if kept is None else kept
            slope = self._slope_(x.view(len(x), C, -1) @ A.mT, samples.expand(len(x), -1))
            g = (slope.view(len(x) * C, -1) @ A).view(x.shape).mul_(scale)
            return g.add_(x, alpha=l2) if l2 else g

        return gradient

    def _small_gradients(self, batches: Drawn[Which], group: Group) -> Callable[[Tensor, Which], Tensor]:
        padding = None if group.columns is None else group.columns.flatten()

        def drawn(k: Which) -> Tensor:
            rows = batches.rows(k)
            return rows if padding is None else rows.index_select(0, padding)

        shape = len(batches.sizes), self.scores, int(batches.sizes.max())
        return numpy_gradients.gradients(self.rows, drawn, self._slope_, shape=shape, weights=group.weights)

    def _is_small(self, batches: Drawn[Any], runs: int = 1) -> bool:
        node = int(batches.sizes.max()) * self.rows.shape[1]
        return self.rows.is_cpu and numpy_gradients.is_worthwhile(node, self.scores * runs)

    def _per_sample(self, batches: Drawn[Any]) -> Tensor:
        """(n N_i / N) / b_i, (n,): the weight of one drawn sample of node i."""
        weights = self.weights if self.node is None else self.weights[self.node : self.node + 1]
        return weights / batches.sizes.to(weights.dtype)

    def _groups(self, batches: Drawn[Any]) -> list[Group]:
        """One group where padding is cheap; else batches within a factor of two of each other share a group."""
        b, per_sample = batches.sizes, self._per_sample(batches)
        longest, n = int(b.max()), len(b)
        if int(b.min()) == longest:
            same = bool((per_sample == per_sample[0]).all())
            return [Group(None, None, float(per_sample[0]) if same else per_sample[:, None, None])]
        if n * longest <= 2 * int(b.sum()) or n * longest * self.rows.shape[1] <= MOST_PADDED:
            kinds = torch.zeros_like(b)
        else:
            kinds = b.double().log2().floor().long()
        starts = b.cumsum(0) - b
        groups = []
        for kind in kinds.unique().tolist():
            nodes = (kinds == kind).nonzero()[:, 0]
            j = torch.arange(int(b[nodes].max()), device=b.device)
            real = j < b[nodes, None]
            columns = torch.where(real, starts[nodes, None] + j, starts[nodes, None])
            weights = (per_sample[nodes, None] * real)[:, None]
            groups.append(Group(nodes if len(nodes) < n else None, columns, weights))
        return groups

    def _losses(self, x: Tensor, data: Samples) -> Tensor:
        return _added(self._loss_of_scores(z, targets).sum(dim=-1) for z, targets in self._scored(x, data))

    def _scored(self, x: Tensor, data: Samples) -> Iterator[tuple[Tensor, Tensor]]:
        """Every model's scores of some samples, (r, C, N), by one product for all models, and the samples' targets;
        piece by piece."""
        samples, columns = len(data), self.rows.shape[1]
        X = x.reshape(-1, columns)
        kept = self._inputs(data) if samples * columns <= MOST_KEPT else None
        for some in pieces(samples, len(X) + columns):
            A = kept[some] if kept is not None else self._with_intercept(data.features[some])
            yield (X @ A.mT).view(len(x), self.scores, -1), data.targets[some]

    def _inputs(self, data: Samples) -> Tensor:
        """The features of a small data set with their intercept, which is measured again and again."""
        if id(data) not in self._kept:
            self._kept[id(data)] = data, self._with_intercept(data.features)
        return self._kept[id(data)][1]

    def _hits(self, x: Tensor, data: Samples) -> Tensor:
        return _added(_right_(z, targets).sum(dim=-1) for z, targets in self._scored(x, data))

    def gradient(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, self.dim)
        X = flat.view(len(flat), self.scores, -1)
        held = self.places.order if self.node is None else self.places[self.node]
        total = torch.zeros_like(X)
        for some in pieces(len(held), len(flat) * self.scores + X.shape[-1]):
            # all nodes' samples are every row in order: a view, where a gather would copy the data set
            A = self.rows[some] if self.node is None else self.rows[held[some]]
            total += self._slope_(X @ A.mT, held[some].expand(len(flat), -1)) @ A
        return (total.view(flat.shape) / len(held) + self.l2 * flat).view(x.shape)


def at_targets(z: Tensor, targets: Tensor) -> Tensor:
    """Each sample's score of its own class: (..., C, N) -> (..., N)."""
    return z.gather(-2, targets.expand(*z.shape[:-2], 1, -1))[..., 0, :]


def _right_(z: Tensor, targets: Tensor) -> Tensor:
    """Whether each sample's class is the first with the highest score: (..., C, N) -> (..., N). Overwrites z.

    By comparing scores, because an argmax takes twenty times as long as a maximum.
    """
    if z.shape[-2] == 1:
        return (z[..., 0, :] > 0) == targets
    own = at_targets(z, targets)
    which = targets.expand(*z.shape[:-2], 1, -1)
    others = z.scatter_(-2, which, -math.inf).amax(dim=-2)
    if not (own == others).any():
        return own > others
    earlier = torch.arange(z.shape[-2], device=z.device)[:, None] < targets
    return (own >= others) & ~((z == own[..., None, :]) & earlier).any(dim=-2)


def _added(parts: Iterable[Tensor]) -> Tensor:
    return reduce(operator.add, parts)


def _rows_of(x: Tensor, group: Group) -> Tensor:
    return x if group.nodes is None else x.index_select(0, group.nodes)


def _columns(drawn: Tensor, group: Group, batches: Drawn[Any]) -> Tensor:
    return drawn.view(len(batches.sizes), -1) if group.columns is None else drawn[group.columns]


def _scatter(x: Tensor, parts: list[tuple[Group, Tensor]]) -> Tensor:
    """The groups' gradients in the order of the nodes."""
    if len(parts) == 1:
        return parts[0][1]
    g = torch.empty_like(x)
    for group, part in parts:
        g[group.nodes] = part
    return g


def padded(drawn: Tensor, counts: Tensor, per_sample: Tensor) -> tuple[Tensor, Tensor]:
    """Batches of varying sizes as rows (n, b) and weights (n, 1, b), padded with samples of weight 0."""
    node, j = segments(counts)
    rows = drawn.new_zeros(len(counts), max(1, int(counts.max())))
    weights = per_sample.new_zeros(len(rows), 1, rows.shape[1])
    rows[node, j] = drawn
    weights[node, 0, j] = per_sample[node]
    return rows, weights
