"""A module in training mode, whose layers remember and draw: BatchNorm, dropout, augmented samples.

Every node has running statistics of its own, a row of ``kept``. Masks and augmentations are functions of (seed, node,
round), so a real node draws what the simulator draws for it, and a resumed run what it would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn

from dsgt.data.samples import Samples
from dsgt.problems.base import GradientFunction
from dsgt.problems.per_node import Batch, Flat
from dsgt.randomness import bits, seeded
from dsgt.statistics import SHARE, Kept

Augment: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]
"""Features of a batch (b, ...) and a seeded generator -> the features to learn from, (b, ...)."""
_MASKS, _AUGMENTED = 4, 5  # other numbers than those by which samples are drawn


@dataclass(frozen=True)
class Behaviour:
    """What a module does in training mode besides computing a function."""

    draws: bool
    """From torch's stream: dropout and the like."""
    remembers: tuple[str, ...]
    """The buffers that it changes."""

    @property
    def is_function(self) -> bool:
        return not self.draws and not self.remembers


def observed(module: nn.Module, features: Tensor) -> Behaviour:
    """How the module behaves on these samples; a ValueError where its numbers come from elsewhere than torch."""
    before = {name: b.clone() for name, b in module.named_buffers()}
    outputs = []
    drew = False
    for _ in range(2):
        with seeded(0, features.device) as streams, torch.no_grad():
            untouched = [s.get_state() for s in streams]
            outputs.append(module(features))
            drew = drew or any(not torch.equal(s.get_state(), u) for s, u in zip(streams, untouched, strict=True))
        changed = tuple(n for n, b in module.named_buffers() if n in before and not same(b, before[n]))
        restore(module, before)
    if not same(*outputs):
        raise ValueError(
            "the module gives different outputs for the same input and the same seed of torch; let it draw from "
            "torch's own stream, as torch's layers do"
        )
    return Behaviour(drew, changed)


def same(a: Tensor, b: Tensor) -> bool:
    """Whether all numbers are equal; NaN is equal to NaN."""
    return torch.equal(a, b) or (a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all()))


@torch.no_grad()
def restore(module: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Give the module these buffers; they are copied."""
    for name, value in values.items():
        owner, last = _owner(module, name)
        owner._buffers[last] = value.clone()


def _owner(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, last = name.rpartition(".")
    return module.get_submodule(path), last


class Buffers:
    """The places in a module where the buffers of these names are."""

    def __init__(self, module: nn.Module, names: Sequence[str]) -> None:
        self._places = {name: _owner(module, name) for name in names}

    @contextmanager
    def of(self, kept: Mapping[str, Tensor], i: int) -> Iterator[None]:
        """The module reads and writes row i."""
        rows = {name: kept[name][i] for name in self._places}
        for name, (owner, last) in self._places.items():
            owner._buffers[last] = rows[name]
        yield
        for name, (owner, last) in self._places.items():
            if (now := owner._buffers[last]) is not rows[name] and now is not None:  # not written into, but replaced
                rows[name].copy_(now.detach())


def gradients(
    flat: Flat,
    data: Samples,
    draw: Callable[[int], Batch],
    *,
    behaviour: Behaviour,
    augment: Augment | None,
    kept: Kept,
    seed: int,
    nodes: Tensor,
) -> GradientFunction:
    """(x, k) -> the gradients of the nodes of these numbers, one after the other.

    The statistics follow the first gradient of a round: an oracle that asks at two points does not count a batch twice.
    """
    buffers = Buffers(flat.module, behaviour.remembers)
    generator = torch.Generator(data.features.device)
    followed = -1

    def gradient(x: Tensor, k: int) -> Tensor:
        nonlocal followed
        batch, g = draw(k), torch.empty_like(x)
        rows = kept if followed != k else {name: v.clone() for name, v in kept.items()}
        followed = k
        masks, moves = (bits(seed, kind, nodes, k).tolist() for kind in (_MASKS, _AUGMENTED))
        for i, some in enumerate(batch.rows.split(list(batch.counts))):
            if not len(some):
                g[i].zero_()  # a Bernoulli draw may be empty
                continue
            features, targets = data.features.index_select(0, some), data.targets.index_select(0, some)
            if augment is not None:
                features = augment(features, generator.manual_seed(moves[i]))
                if len(features) != len(targets):
                    raise ValueError(
                        f"the augmentation {name_of(augment)!r} makes {len(features)} samples of {len(targets)}; let "
                        "it give as many as it is given"
                    )
            with seeded(masks[i], features.device), buffers.of(rows, i):
                flat.gradient(x[i], features, targets, batch.scales[i], g[i])
        return g

    return gradient


def at_start(module: nn.Module, behaviour: Behaviour, shares: Tensor) -> Kept:
    """What the nodes of these shares keep before the first round: all of them what the module came with."""
    if not behaviour.remembers:
        return {}
    held = dict(module.named_buffers())
    kept = {name: held[name].detach().expand(len(shares), *held[name].shape).clone() for name in behaviour.remembers}
    return kept | {SHARE: shares.clone()}


def function_of(augment: Augment) -> Augment:
    """Without the arguments that were given beforehand."""
    return augment.func if isinstance(augment, partial) else augment


def name_of(augment: Augment) -> str:
    function = function_of(augment)
    return str(getattr(function, "__qualname__", type(function).__name__))


def check_augmentation(augment: Augment, features: Tensor) -> Tensor:
    """What it makes of these samples: as many of the same kind, and the same ones for the same seed."""
    generator = torch.Generator(features.device)
    try:
        first, again = (augment(features.clone(), generator.manual_seed(0)) for _ in range(2))
    except Exception as error:
        raise ValueError(
            f"the augmentation {name_of(augment)!r} cannot take a batch of shape {tuple(features.shape)} and a "
            f"generator: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(first, Tensor) or first.shape[:1] != features.shape[:1] or first.dtype != features.dtype:
        given = f"{first.dtype} {tuple(first.shape)}" if isinstance(first, Tensor) else type(first).__name__
        raise ValueError(
            f"the augmentation {name_of(augment)!r} gives {given} for a batch {features.dtype} "
            f"{tuple(features.shape)}; expected as many samples of the same dtype"
        )
    if not same(first, again):
        raise ValueError(
            f"the augmentation {name_of(augment)!r} gives different samples for the same seed; let it draw from the "
            "generator it is given: torch.rand(..., generator=generator)"
        )
    return first
