"""Any torch.nn.Module as a problem: its trainable parameters are one flat vector per node."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parameter import UninitializedParameter

from dsgt.core import Local
from dsgt.data.batches import Drawn
from dsgt.data.samples import DataLike, Samples
from dsgt.data.sampling import Sampling
from dsgt.data.shards import Shards
from dsgt.layout import Layout
from dsgt.problems import training
from dsgt.problems.base import GradientFunction
from dsgt.problems.erm import EmpiricalRisk, Shard, check_labels, pieces
from dsgt.problems.per_node import STRATEGIES, Batch, Flat, Gradients, Loss, agree, fastest
from dsgt.problems.stacked import stack
from dsgt.problems.training import Augment, Behaviour, Buffers, function_of, name_of
from dsgt.source import source
from dsgt.statistics import Kept, averaged
from dsgt.text import listed

Which = TypeVar("Which")
STATISTICS = ("own", "averaged")
"""With whose running statistics a node's model is measured."""


class Model(EmpiricalRisk):
    """The mean of ``loss(module(features), targets)`` over all samples.

    ``loss`` gives the mean over a batch, as torch's losses do. ``strategy`` says how every node's gradient is computed:
    "loop", "threads", "vmap" or "stacked" (layer by layer, for ``nn.Sequential`` of known layers), or "auto", which
    measures them at the first gradient. They agree to rounding, so name one where runs must repeat bit for bit.

    ``convex=True`` says that the loss is smooth and convex in the parameters, as that of one linear layer is: with
    l2 > 0 conjugates and resolvents are then found, by L-BFGS. Nobody can check it; what a solver does not reach is
    refused.

    The module itself is only read. In training mode it may remember and draw: every node has BatchNorm's running
    statistics for itself, and dropout's masks are functions of (seed, node, round), as is what ``augment(features,
    generator)`` makes of a batch. Models are measured in evaluation mode: the mean model with the statistics of all
    nodes averaged, a node's model with its own, or with ``statistics="averaged"`` with these too.
    """

    def __init__(
        self,
        module: nn.Module,
        data: DataLike,
        shards: Shards,
        sampling: Sampling,
        *,
        loss: Loss = cross_entropy,
        test: DataLike | None = None,
        l2: float = 0.0,
        strategy: str = "auto",
        convex: bool = False,
        augment: Augment | None = None,
        statistics: str = "own",
    ) -> None:
        super().__init__(data, shards, sampling, test, l2)
        if strategy not in ("auto", *STRATEGIES):
            raise ValueError(f"strategy is {strategy!r}; choose auto, {', '.join(STRATEGIES)}")
        if statistics not in STATISTICS:
            raise ValueError(f"statistics is {statistics!r}; choose {' or '.join(STATISTICS)}")
        features = self.data.features
        if any(isinstance(p, UninitializedParameter) for p in module.parameters()):
            raise ModuleError(
                f"{type(module).__name__} has lazy layers, whose parameters have no shape yet; call it once on a batch "
                "where it is made"
            )
        self.strategy, self.convex = strategy, convex
        self.chosen: str | None = None
        """What "auto" has measured to be the fastest, once it has."""
        self._flat = Flat(copy.deepcopy(module).to(features.device, features.dtype), loss)
        if not self._flat.parameters:
            raise ModuleError(
                f"{type(module).__name__} has no parameter that requires a gradient: there is nothing to train"
            )
        if bad := [name for name, p in module.named_parameters() if _broken(p)]:
            raise ModuleError(
                f"{listed(bad)} of {type(module).__name__} hold{'s' * (len(bad) == 1)} numbers that are not finite "
                "(NaN or infinite) before training begins; let its parameters begin with finite ones"
            )
        if strategy == "stacked" and stack(self._flat.module, self._flat.parameters) is None:
            raise ValueError(
                f"strategy is 'stacked', but {type(module).__name__} is not made of nn.Sequential, Linear, LayerNorm, "
                "Flatten and elementwise layers alone; choose auto"
            )
        self.dim = sum(p.numel() for p in self._flat.parameters)
        self._start = self._flat.vector()
        self.augment, self.statistics = augment, statistics
        self._kept: tuple[Kept, Kept] | None = None
        """Every node's, and their average; without them models are measured with what the module came with."""
        self._behaviour, outputs = _check(self._flat, self.data, self.batch if sampling.fixed else None, augment)
        self.is_function = self._behaviour.is_function and augment is None
        self.remembers = bool(self._behaviour.remembers)
        if not self.is_function and strategy not in ("auto", "loop"):
            raise ValueError(
                f"strategy is {strategy!r}, but this module draws or remembers (dropout, BatchNorm, augmentation): "
                "choose loop"
            )
        self._measured = self._flat if self._behaviour.is_function else Flat(_evaluated(self._flat.module), loss)
        if self.data.labelled and self.test is not None and outputs.ndim == 2 and outputs.shape[1] > 1:
            check_labels(self.test, outputs.shape[1], "test")

    def start(self, seed: int) -> Tensor:
        """The parameters that the module came with."""
        return self._start.clone()

    def made_of(self) -> Iterable[object]:
        own = () if self.augment is None else (function_of(self.augment),)
        return (self, self._flat.loss, *own, *self._flat.module.modules())

    def identity(self) -> Mapping[str, Tensor | str]:
        if self.augment is None:
            return super().identity()
        function, options = function_of(self.augment), getattr(self.augment, "keywords", {})
        return {**super().identity(), "augment": f"{name_of(function)} {options} {source(function)}"}

    def oracle(self, seed: int) -> GradientFunction:
        return super().oracle(seed) if self.is_function else self._training(seed, self._at_start())

    def local(self, seed: int) -> Local:
        if self.is_function:
            return super().local(seed)
        kept = self._at_start()
        local = Shard(self, self._training(seed, kept), seed)
        local.kept = kept
        return local

    def _at_start(self) -> Kept:
        shares = self.shards.sizes.double() / self.samples
        here = shares if self.node is None else shares[self.node : self.node + 1]
        return training.at_start(self._flat.module, self._behaviour, here)

    def _training(self, seed: int, kept: Kept) -> GradientFunction:
        nodes = torch.arange(self.nodes) if self.node is None else torch.tensor([self.node])
        flat = Flat(self._flat.module, self._flat.loss)  # its buffers are other ones in every run
        how = {"behaviour": self._behaviour, "augment": self.augment}
        draw = self._draw(self.batches(seed))
        return self._guarded(training.gradients(flat, self.data, draw, kept=kept, seed=seed, nodes=nodes, **how))  # type: ignore[arg-type]

    def remembering(self, kept: Mapping[str, Tensor]) -> Self:
        seen = copy.copy(self)
        seen._kept = (dict(kept), {name: v[None] for name, v in averaged(kept).items()}) if kept else None
        return seen

    def layout(self) -> Layout:
        places = tuple(self._flat.places())
        held = {place.name for place in places}
        return Layout(places, tuple(name for name in self._flat.module.state_dict() if name not in held))

    def _gradients(self, batches: Drawn[Which]) -> Callable[[Tensor, Which], Tensor]:
        features, targets = self.data.features, self.data.targets
        fixed = batches.sizes.tolist() if batches.fixed else None
        draw = self._draw(batches)
        candidates = {name: STRATEGIES[name](self._flat, features, targets) for name in self._candidates(fixed)}
        chosen: Gradients | None = next(iter(candidates.values())) if len(candidates) == 1 else None
        checked = self.strategy != "stacked"

        def gradients(x: Tensor, k: Which) -> Tensor:
            nonlocal chosen, checked
            batch = draw(k)
            if not checked:
                expected, found = (
                    STRATEGIES[name](self._flat, features, targets)(x, batch) for name in ("loop", "stacked")
                )
                if not agree(found, expected):
                    raise ValueError("strategy is 'stacked', whose gradient is not that of a loop here; choose auto")
                checked = True
            if chosen is None:
                self.chosen = fastest(candidates, x, batch)
                chosen = candidates[self.chosen]
                candidates.clear()
            return chosen(x, batch)

        return gradients

    def _draw(self, batches: Drawn[Which]) -> Callable[[Which], Batch]:
        """The samples that the nodes here draw, and how heavy they are."""
        weights = self.weights if self.node is None else self.weights[self.node : self.node + 1]
        expected = batches.sizes.double()
        per_sample = (weights.double() / expected).tolist()
        fixed = batches.sizes.tolist() if batches.fixed else None
        scales = weights.tolist()

        def draw(k: Which) -> Batch:
            if fixed is not None:
                return Batch(batches.rows(k), fixed, scales)
            rows, counts = batches.ragged(k)
            drawn = counts.tolist()
            return Batch(rows, drawn, [c * w for c, w in zip(drawn, per_sample, strict=True)])

        return draw

    def _candidates(self, counts: list[int] | None) -> list[str]:
        """The strategies worth measuring; one alone is not measured."""
        if self.strategy != "auto":
            return [self.strategy]
        if self.node is not None or self.nodes == 1:
            return ["loop"]
        if self.chosen is not None:
            return [self.chosen]
        names = ["loop"]
        if not self._start.is_cuda and torch.get_num_threads() > 1:
            names.append("threads")
        if counts is not None and 2 * len(set(counts)) <= len(counts):
            names.append("vmap" if stack(self._flat.module, self._flat.parameters) is None else "stacked")
        return names

    def _pieces(self, data: Samples) -> list[slice]:
        return pieces(len(data), 4 * data.features[0].numel())

    @property
    def pieces_of_a_shard(self) -> int:
        largest, smallest = int(self.shards.sizes.max()), int(self.shards.sizes.min())
        return min(smallest, len(pieces(largest, 4 * self.data.features[0].numel())))

    def _modules(self, x: Tensor) -> Iterator[tuple[int, nn.Module]]:
        """The module at every row, in evaluation mode and with its statistics."""
        for i, row in enumerate(x):
            with self._statistics(i if len(x) >= self.nodes and i < self.nodes else None):
                yield i, self._measured.at(row)

    @contextmanager
    def _statistics(self, node: int | None) -> Iterator[None]:
        if self._kept is None:
            yield
            return
        own, mean = self._kept
        kept, row = (mean, 0) if node is None or self.statistics == "averaged" else (own, node)
        with Buffers(self._measured.module, self._behaviour.remembers).of(kept, row):
            yield

    @torch.no_grad()
    def _losses(self, x: Tensor, data: Samples) -> Tensor:
        total = x.new_zeros(len(x))
        for i, module in self._modules(x):
            for some in self._pieces(data):
                value = self._flat.loss(module(data.features[some]), data.targets[some])
                total[i] += value * (some.stop - some.start)
        return total

    @torch.no_grad()
    def _hits(self, x: Tensor, data: Samples) -> Tensor:
        total = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        for i, module in self._modules(x):
            for some in self._pieces(data):
                z = module(data.features[some])
                guess = (z.reshape(len(z)) > 0).long() if z[0].numel() == 1 else z.argmax(dim=-1)
                total[i] += (guess == data.targets[some]).sum()
        return total

    def gradient(self, x: Tensor) -> Tensor:
        data, flat = self.held, x.reshape(-1, self.dim)
        total, part = torch.zeros_like(flat), torch.empty_like(flat[0])
        for i, _ in self._modules(flat):
            for some in self._pieces(data):
                share = (some.stop - some.start) / len(data)
                self._measured.gradient(flat[i], data.features[some], data.targets[some], share, part)
                total[i] += part
        return (total + self.l2 * flat).view(x.shape)


class ModuleError(ValueError):
    """A module that these samples cannot train."""


def _check_mean(loss: Loss, outputs: Tensor, targets: Tensor, value: float) -> None:
    """A batch twice over has the same mean, but not the same sum."""
    if not isinstance(outputs, Tensor) or not math.isfinite(value) or not value:
        return
    with torch.no_grad():
        twice = float(loss(torch.cat([outputs, outputs]), torch.cat([targets, targets])))
    if abs(twice - value) > 0.1 * abs(value):
        raise ValueError(
            f"the loss of {len(targets)} samples is {value:.4g}, and {twice:.4g} if each is there twice, but it must "
            "be the mean over a batch: give one with reduction='mean'"
        )


def _broken(p: Tensor) -> bool:
    """What is not trained may be infinite, as a mask is."""
    return not (p.isfinite() if p.requires_grad else ~p.isnan()).all()


def _evaluated(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode."""
    return copy.deepcopy(module).eval()


@contextmanager
def _taking(data: Samples) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ModuleError(
            f"the module or the loss cannot take samples of shape {tuple(data.features.shape[1:])} "
            f"({data.features.dtype}) with targets of dtype {data.targets.dtype}: {error}"
        ) from error


@torch.no_grad()
def _mixes_samples(module: nn.Module, features: Tensor, outputs: Tensor) -> bool:
    """Whether a sample alone has other outputs than beside another one."""
    try:
        alone = module(features[:1])
    except Exception:  # as normalisation by the batch does with a single sample
        return True
    rounding = max(1e-3, 16 * torch.finfo(outputs.dtype).eps)  # in bfloat16 a batch rounds otherwise than a sample
    beside, apart = outputs[:1], rounding * float(outputs.abs().max())
    return alone.shape == beside.shape and not torch.allclose(alone, beside, rtol=0, atol=apart, equal_nan=True)


@torch.no_grad()
def _augmented(flat: Flat, augment: Augment, features: Tensor, targets: Tensor) -> Tensor:
    """Samples of another shape are fine where the module takes both, as one without dense layers does."""
    given = training.check_augmentation(augment, features)
    if given.shape != features.shape:
        try:
            flat.loss(_evaluated(flat.module)(given), targets)
        except Exception as error:
            raise ValueError(
                f"the augmentation {name_of(augment)!r} makes a batch of shape {tuple(features.shape)} one of "
                f"{tuple(given.shape)}, which the module or the loss cannot take; let it keep the shape, or leave it "
                "out"
            ) from error
    return given


def _check(flat: Flat, data: Samples, batch: Tensor | None, augment: Augment | None) -> tuple[Behaviour, Tensor]:
    """What the module does in training mode, and its outputs on a few samples in evaluation mode, where it must be a
    function of its parameters and its input."""
    few = torch.tensor([0, int(data.targets.argmax())] if data.labelled and data.targets.ndim == 1 else [0, -1])
    features, targets = data.features[few], data.targets[few]  # the largest label is among them
    resting = _evaluated(flat.module)
    with _taking(data), torch.no_grad():
        still = training.observed(resting, features)
        outputs: Tensor = resting(features)
    if data.labelled and outputs.ndim == 2 and outputs.shape[1] > 1:
        check_labels(data, outputs.shape[1], "training")
    with _taking(data), torch.no_grad():
        value = flat.loss(outputs, targets)
    if not still.is_function:
        raise ModuleError(
            "the module draws numbers or changes its buffers in evaluation mode too, in which models are measured: let "
            "its layers look at self.training"
        )
    if outputs.isfinite().all() and _mixes_samples(resting, features, outputs):
        raise ModuleError(
            f"the outputs of {type(flat.module).__name__} for a sample depend on the other samples of its batch in "
            "evaluation mode too, so a loss would depend on how many are measured at once; use layers that do without "
            "(GroupNorm), or BatchNorm with its running statistics"
        )
    if outputs.isnan().any():
        raise ModuleError(
            f"the outputs of {type(flat.module).__name__} are not finite (NaN) on the first samples, though its "
            "parameters are; look for a logarithm, a root or a division in it, and scale the features"
        )
    if value.ndim or not value.is_floating_point():
        raise ValueError(
            f"the loss gives a tensor of shape {tuple(value.shape)}, but it must be one number, the mean over the batch"
        )
    _check_mean(flat.loss, outputs, targets, float(value))
    if augment is not None:
        features = _augmented(flat, augment, features, targets)
    node, least = (0, 1) if batch is None else (int(batch.argmin()), int(batch.min()))
    try:
        return training.observed(flat.module, features[: max(1, least)]), outputs
    except Exception as error:
        drawn = "may draw a single sample" if batch is None else f"draws {least} sample{'s' * (least != 1)}"
        raise ValueError(
            f"the module cannot be trained as it is: {error} (in a round node {node} {drawn}; if these are too few, "
            "give a larger batch or a more even partition)"
        ) from error
