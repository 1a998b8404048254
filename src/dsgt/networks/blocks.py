"""A round of a large simulation on one core, some columns at a time.

An ``arithmetic`` method does the same to every coordinate of the model, so its round may be computed for some
coordinates of all nodes, then for the next. What it computes on the way then never leaves the core's cache, and mixings
are written straight into their place (benchmarks/simulator.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Mix, Pending, S, tensors
from dsgt.networks.buffers import LARGE
from dsgt.networks.dense import Dense

BLOCK = 1 << 19
"""Numbers in a tensor of a block, at most: the best of several sizes for caches of one or two megabytes a core."""
NARROWEST = 1024
"""Columns from which on a product is as fast as on the whole."""


def pay(mix: Mix, algorithm: Algorithm[S], g: Tensor) -> TypeGuard[Dense]:
    """Whether a round with this gradient may be cut, is large enough, and has one core to itself: several cores share
    the work of whole tensors better (measured with two)."""
    on_one_core = g.is_cpu and torch.get_num_threads() == 1
    return on_one_core and g.numel() >= LARGE and algorithm.arithmetic and type(mix) is Dense


def update(algorithm: Algorithm[S], s: S, g: Tensor, mix: Dense, lr: float, *, look: Callable[[Tensor], None]) -> S:
    """``algorithm.update``, block after block. ``look`` is shown all of g before it is used."""
    widths = _widths(*g.shape)
    whole = _Whole(mix, _Cut.of(g, widths))
    before = [_Cut.of(v, widths) for v in tensors(s).values()]
    pending = [isinstance(f, Pending) for f in s]

    def state(values: Iterable[Tensor]) -> S:
        return type(s)(*(Done(v) if p else v for v, p in zip(values, pending, strict=True)))  # type: ignore[arg-type]

    def one(block: int) -> None:
        g = whole.g.parts[block]
        look(g)
        after = algorithm.update(state(v.parts[block] for v in before), g, _Columns(whole, block), lr)
        whole.place([f.wait() if isinstance(f, Pending) else f for f in after], block)

    for block in range(len(widths)):
        one(block)
    return state(field.whole for field in whole.fields)


def _widths(n: int, m: int) -> list[int]:
    """A power of two of them, as equal as can be."""
    count = 1
    while m > count * max(NARROWEST, BLOCK // n):
        count *= 2
    return [m * (i + 1) // count - m * i // count for i in range(count)]


class _Cut(NamedTuple):
    """A tensor and the blocks of its columns."""

    whole: Tensor
    parts: Sequence[Tensor]

    @classmethod
    def of(cls, v: Tensor, widths: list[int]) -> _Cut:
        return cls(v, v.split(widths, dim=1))


class _Whole:
    """The tensors that the blocks of a round are parts of."""

    def __init__(self, dense: Dense, g: _Cut) -> None:
        self.dense, self.g = dense, g
        self.mixed: list[_Cut] = []
        self.fields: list[_Cut] = []

    def mixing(self, number: int, block: int) -> Tensor:
        """Where the result of this mixing of the round goes."""
        if number == len(self.mixed):
            self.mixed.append(self._fresh())
            self.dense.count(self.g.whole)
        return self.mixed[number].parts[block]

    def place(self, state: Sequence[Tensor], block: int) -> None:
        """Put a block of the new state where it belongs, unless it is there already."""
        if not self.fields:
            self.fields = [self._home(value, block) for value in state]
        for value, home in zip(state, self.fields, strict=True):
            if value is not home.parts[block]:
                home.parts[block].copy_(value)

    def _home(self, value: Tensor, block: int) -> _Cut:
        """The result of a mixing and the gradient are at home already."""
        for cut in (*self.mixed, self.g):
            if value is cut.parts[block]:
                return cut
        return self._fresh()

    def _fresh(self) -> _Cut:
        g = self.g.whole
        return _Cut.of(self.dense.buffers.like(g), [part.shape[1] for part in self.g.parts])


class _Columns(Mix):
    """Mixes some columns, each time into the next of the whole's tensors."""

    def __init__(self, whole: _Whole, block: int) -> None:
        self._whole, self._block, self._number = whole, block, 0

    def start(self, v: Tensor) -> Pending:
        return Done(self._whole.dense.product_into(v, self._next()))

    def start_flow(self, v: Tensor) -> Pending:
        return Done(self._whole.dense.flow_into(v, self._next()))

    def together(self, *vs: Tensor) -> tuple[Tensor, ...]:
        raise TypeError("a method that mixes tensors together needs all their columns: do not declare it arithmetic")

    def _next(self) -> Tensor:
        self._number += 1
        return self._whole.mixing(self._number - 1, self._block)
