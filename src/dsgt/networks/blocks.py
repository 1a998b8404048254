"""A round of a large simulation, some columns at a time.

A ``separable`` method does the same to every coordinate of the model, so its round may be computed for some coordinates
of all nodes, then for the next. What it computes on the way then never leaves a core's cache, mixings are written
straight into their place, and cores need not wait for each other (benchmarks/simulator.py). The numbers do not depend
on how many cores there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from threading import Lock

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Mix, Pending, S, tensors, with_tensors
from dsgt.networks.buffers import LARGE
from dsgt.networks.dense import Dense
from dsgt.threads import threads

BLOCK = 1 << 18
"""Numbers in a tensor of a block, at most: two or three of them fit into a core's cache."""
NARROWEST = 1024
"""Columns from which on a product is as fast as on the whole."""


def update(algorithm: Algorithm[S], s: S, g: Tensor, mix: Mix, lr: float) -> S:
    """``algorithm.update``, in blocks where that is possible and faster."""
    if g.numel() < LARGE or not (algorithm.separable and type(mix) is Dense and g.device.type == "cpu"):
        return algorithm.update(s, g, mix, lr)
    blocks = _blocks(*g.shape)
    if len(blocks) == 1:
        return algorithm.update(s, g, mix, lr)
    before = tensors(s)
    whole = _Whole(mix, g)

    def one(block: slice) -> None:
        part = with_tensors(s, {name: v[:, block] for name, v in before.items()})
        part = algorithm.update(part, g[:, block], _Columns(whole, block), lr)
        whole.place(tensors(part), block)

    _on_every_core(one, blocks)
    return with_tensors(s, whole.fields)


def _blocks(n: int, m: int) -> list[slice]:
    """A power of two of them, so that cores get equal shares."""
    count = 1
    while m > count * max(NARROWEST, BLOCK // n):
        count *= 2
    ends = [m * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]


class _Whole:
    """The tensors that the blocks are parts of."""

    def __init__(self, dense: Dense, g: Tensor) -> None:
        self.dense, self.g = dense, g
        self.mixed: list[Tensor] = []
        self.fields: dict[str, Tensor] = {}
        self._lock = Lock()

    def mixing(self, number: int) -> Tensor:
        """Where the result of this mixing of the round goes."""
        with self._lock:
            if number == len(self.mixed):
                self.mixed.append(self._fresh())
                self.dense.count(self.g)
            return self.mixed[number]

    def place(self, part: dict[str, Tensor], block: slice) -> None:
        """Put a block of the new state where it belongs, unless it is there already."""
        for name, value in part.items():
            with self._lock:
                if name not in self.fields:
                    self.fields[name] = self._home(value, block)
                home = self.fields[name][:, block]
            if home.data_ptr() != value.data_ptr():
                home.copy_(value)

    def _home(self, value: Tensor, block: slice) -> Tensor:
        for home in (*self.mixed, self.g):
            if home[:, block].data_ptr() == value.data_ptr():
                return home
        return self._fresh()

    def _fresh(self) -> Tensor:
        fresh = self.dense.buffers.large(self.g)
        assert fresh is not None
        return fresh


class _Columns(Mix):
    """Mixes some columns, each time into the next of the whole's tensors."""

    def __init__(self, whole: _Whole, block: slice) -> None:
        self._whole, self._block, self._number = whole, block, 0

    def start(self, v: Tensor) -> Pending:
        return Done(self._whole.dense.product_into(v, self._next()))

    def start_flow(self, v: Tensor) -> Pending:
        return Done(self._whole.dense.flow_into(v, self._next()))

    def together(self, *vs: Tensor) -> tuple[Tensor, ...]:
        raise TypeError("a method that mixes tensors together needs all their columns: do not declare it separable")

    def _next(self) -> Tensor:
        place = self._whole.mixing(self._number)[:, self._block]
        self._number += 1
        return place


def _on_every_core(act: Callable[[slice], None], blocks: list[slice]) -> None:
    """Every core takes block after block, and works on it alone."""
    cores = min(torch.get_num_threads(), len(blocks))
    left = iter(blocks)

    @torch.no_grad()  # for each thread anew
    def work() -> None:
        for block in left:
            act(block)

    if cores == 1:
        return work()
    with threads(1):
        others = [_pool(cores - 1).submit(work) for _ in range(cores - 1)]
        try:
            work()
        finally:
            for other in others:
                other.result()


@cache
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, "dsgt-blocks", initializer=torch.set_num_threads, initargs=(1,))


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
