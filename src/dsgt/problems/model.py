"""Any torch.nn.Module as a problem: its trainable parameters are one flat vector per node."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from dsgt.data.batches import Batches
from dsgt.data.samples import DataLike, Samples
from dsgt.data.sampling import Sampling
from dsgt.data.shards import Shards
from dsgt.layout import Layout
from dsgt.problems.base import Oracle
from dsgt.problems.erm import EmpiricalRisk, check_labels, pieces
from dsgt.problems.per_node import STRATEGIES, Batch, Flat, Gradients, Loss, fastest


class Model(EmpiricalRisk):
    """The mean of ``loss(module(features), targets)`` over all samples.

    ``loss`` gives the mean over a batch, as torch's losses do. ``strategy`` says how every node's gradient is computed:
    "loop", "threads" or "vmap", or "auto", which measures them at the first gradient. They agree to rounding, so name
    one where runs must repeat bit for bit.

    The module itself is only read. It must be a function: dropout and batch normalisation in training mode are refused.
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
    ) -> None:
        super().__init__(data, shards, sampling, test, l2)
        if strategy not in ("auto", *STRATEGIES):
            raise ValueError(f"strategy is {strategy!r}; choose auto, {', '.join(STRATEGIES)}")
        features = self.data.features
        self.strategy = strategy
        self.chosen: str | None = None
        """What "auto" has measured to be the fastest, once it has."""
        self._flat = Flat(copy.deepcopy(module).to(features.device, features.dtype), loss)
        if not self._flat.parameters:
            raise ValueError(
                f"{type(module).__name__} has no parameter that requires a gradient: there is nothing to train"
            )
        self.dim = sum(p.numel() for p in self._flat.parameters)
        self._start = self._flat.vector()
        outputs = _check(self._flat, self.data)
        if self.data.labelled and outputs.ndim == 2 and outputs.shape[1] > 1:
            check_labels(self.data, outputs.shape[1], "training")
            if self.test is not None:
                check_labels(self.test, outputs.shape[1], "test")

    def start(self, seed: int) -> Tensor:
        """The parameters that the module came with."""
        return self._start.clone()

    def made_of(self) -> Iterable[object]:
        return (self, self._flat.loss, *self._flat.module.modules())

    def layout(self) -> Layout:
        places = tuple(self._flat.places())
        held = {place.name for place in places}
        return Layout(places, tuple(name for name in self._flat.module.state_dict() if name not in held))

    def _gradients(self, batches: Batches) -> Oracle:
        features, targets = self.data.features, self.data.targets
        weights = self.weights if self.node is None else self.weights[self.node : self.node + 1]
        expected = batches.sizes.double()
        per_sample = (weights.double() / expected).tolist()
        fixed = batches.sizes.tolist() if self.sampling.fixed else None
        scales = weights.tolist()

        def draw(k: int) -> Batch:
            if fixed is not None:
                return Batch(batches.rows(k), fixed, scales)
            rows, counts = batches.ragged(k)
            drawn = counts.tolist()
            return Batch(rows, drawn, [c * w for c, w in zip(drawn, per_sample, strict=True)])

        candidates = {name: STRATEGIES[name](self._flat, features, targets) for name in self._candidates(fixed)}
        chosen: Gradients | None = next(iter(candidates.values())) if len(candidates) == 1 else None

        def gradients(x: Tensor, k: int) -> Tensor:
            nonlocal chosen
            batch = draw(k)
            if chosen is None:
                self.chosen = fastest(candidates, x, batch)
                chosen = candidates[self.chosen]
                candidates.clear()
            return chosen(x, batch)

        return gradients

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
            names.append("vmap")
        return names

    def _pieces(self, data: Samples) -> list[slice]:
        return pieces(len(data), 4 * data.features[0].numel())

    @torch.no_grad()
    def _losses(self, x: Tensor, data: Samples) -> Tensor:
        total = x.new_zeros(len(x))
        for i, row in enumerate(x):
            module = self._flat.at(row)
            for some in self._pieces(data):
                value = self._flat.loss(module(data.features[some]), data.targets[some])
                total[i] += value * (some.stop - some.start)
        return total

    @torch.no_grad()
    def _hits(self, x: Tensor, data: Samples) -> Tensor:
        total = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        for i, row in enumerate(x):
            module = self._flat.at(row)
            for some in self._pieces(data):
                z = module(data.features[some])
                guess = (z.reshape(len(z)) > 0).long() if z[0].numel() == 1 else z.argmax(dim=-1)
                total[i] += (guess == data.targets[some]).sum()
        return total

    def gradient(self, x: Tensor) -> Tensor:
        data, flat = self.held, x.reshape(-1, self.dim)
        total, part = torch.zeros_like(flat), torch.empty_like(flat[0])
        for i, row in enumerate(flat):
            for some in self._pieces(data):
                share = (some.stop - some.start) / len(data)
                self._flat.gradient(row, data.features[some], data.targets[some], share, part)
                total[i] += part
        return (total + self.l2 * flat).view(x.shape)


def _check(flat: Flat, data: Samples) -> Tensor:
    """Refuse a module that is not a function of its parameters and its input; give its outputs on a few samples."""
    for name, layer in flat.module.named_modules():
        if isinstance(layer, _BatchNorm) and layer.training:
            raise ValueError(
                f"the layer {name!r} is a {type(layer).__name__} in training mode: its running statistics are a state "
                "that no method mixes, and a sample's loss would depend on its batch; use GroupNorm or LayerNorm, or "
                "freeze it with .eval()"
            )
        if isinstance(layer, _DropoutNd) and layer.training and layer.p > 0:
            raise ValueError(
                f"the layer {name!r} is a {type(layer).__name__} in training mode: its masks come from one global "
                "random stream, so nodes would no longer draw their own numbers; set p = 0, use l2, or switch it off "
                "with .eval()"
            )
    few = slice(0, min(2, len(data)))
    buffers = [b.clone() for b in flat.module.buffers()]
    forward = partial(flat.module, data.features[few])
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            outputs: Tensor = forward()
            again: Tensor = forward()
            value = flat.loss(outputs, data.targets[few])
    except Exception as error:
        raise ValueError(
            f"the module or the loss cannot take samples of shape {tuple(data.features.shape[1:])} "
            f"({data.features.dtype}) with targets of dtype {data.targets.dtype}: {error}"
        ) from error
    if not torch.equal(outputs, again):
        raise ValueError("the module gives different outputs for the same input; make it a function: no random layers")
    if any(not torch.equal(a, b) for a, b in zip(buffers, flat.module.buffers(), strict=True)):
        raise ValueError("the module changes its buffers when it is called; no method mixes these: call .eval() first")
    if value.ndim or not value.is_floating_point():
        raise ValueError(
            f"the loss gives a tensor of shape {tuple(value.shape)}, but it must be one number, the mean over the batch"
        )
    return outputs
