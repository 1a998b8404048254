"""Rounds of a small simulation by NumPy, which starts an operation in half of torch's time.

An ``arithmetic`` method is a text of + - * / and mixings, and NumPy's arrays understand it as torch's tensors do
(benchmarks/simulator.py). So "Tensor" in its types is an array here, which the type checker cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor, from_numpy

from dsgt.core import Algorithm, Done, Mix, Network, Pending, S
from dsgt.networks.dense import Dense
from dsgt.topologies.matrix import is_averaging, to_dense

SMALL = 1 << 14
"""Numbers in a tensor, at most: from here on the arithmetic itself is what takes the time."""
PRODUCT = 1 << 18
"""Multiplications in W v, at most: for more, NumPy's BLAS starts threads, which torch's number of threads does not
limit and which several worker processes would fight over."""
_KINDS = {torch.float32, torch.float64}


def pay(network: Network, algorithm: Algorithm[S], x: Tensor) -> TypeGuard[Dense]:
    """Whether a run from these models is small enough, and NumPy's to compute: nobody asks for derivatives of it."""
    if not (algorithm.arithmetic and type(network) is Dense) or torch.is_grad_enabled():
        return False
    return x.is_cpu and x.dtype in _KINDS and x.numel() <= SMALL and len(x) * x.numel() <= PRODUCT


def rounds(
    algorithm: Algorithm[S],
    grad: Callable[[Tensor, int, float], Tensor],
    dense: Dense,
    lr: Callable[[int], float],
    begin: tuple[int, S],
    looked_at: Callable[[int], bool],
) -> Iterator[tuple[int, S]]:
    """(k, the state after k rounds), from ``begin`` on, wherever somebody looks at it. ``grad`` is also told lr."""
    k, tensors = begin
    mix = _Arrays(dense, tensors[0].dtype)
    update = np.errstate(all="ignore")(algorithm.update)  # torch does not warn either: the loop looks at gradients
    while True:
        if looked_at(k):
            yield k, tensors
        state: Any = _each(lambda v: v.numpy(), tensors)
        while True:
            rate = lr(k)
            g: Any = grad(from_numpy(state[0]), k, rate).detach().numpy()
            state = update(state, g, mix, rate)
            k += 1
            if looked_at(k):
                break
        tensors = _each(from_numpy, state)


def _each(convert: Callable[[Any], Any], state: S) -> S:
    fields = [Done(convert(f.wait())) if isinstance(f, Pending) else convert(f) for f in state]
    return type(state)(*fields)  # type: ignore[arg-type]


class _Arrays(Mix):
    """Mixes arrays as ``dense`` mixes tensors."""

    def __init__(self, dense: Dense, dtype: torch.dtype) -> None:
        self._dense = dense
        self._W = None if is_averaging(dense.W) else torch.as_tensor(to_dense(dense.W)).to(dtype).numpy()

    def start(self, v: Any) -> Pending:
        self._dense.count(v)
        return Done(self._product(v))

    def start_flow(self, v: Any) -> Pending:
        self._dense.count(v)
        d = v - v[:1]
        return Done(self._product(d) - d)

    def together(self, *vs: Any) -> tuple[Any, ...]:
        raise TypeError("a method that mixes tensors together joins them by torch: do not declare it arithmetic")

    def _product(self, v: Any) -> Any:
        return v.mean(axis=0, keepdims=True).repeat(len(v), axis=0) if self._W is None else self._W @ v
