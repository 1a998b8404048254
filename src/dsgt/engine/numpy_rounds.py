"""Rounds of a small simulation by NumPy, which starts an operation in half of torch's time.

An ``arithmetic`` method is a text of + - * / and mixings, and NumPy arrays understand it as torch's tensors do
(benchmarks/simulator.py). So "Tensor" in its types is an array here, which the type checker cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

import numpy as np
import torch
from torch import Tensor, from_numpy

from dsgt.core import Algorithm, Mix, Network, Pending, S

MOST_NUMBERS = 1 << 14
"""In a tensor: from here on the arithmetic itself is what takes the time."""
MOST_MULTIPLICATIONS = 1 << 18
"""In W v: for more, NumPy's BLAS starts threads, which torch's number of threads does not limit and which several
worker processes would fight over."""
_DTYPES = {torch.float32, torch.float64}


def is_worthwhile(algorithm: Algorithm[S], network: Network, x: Tensor) -> bool:
    """Whether a run from these models is small, and nobody asks for its derivatives."""
    elsewhere = type(algorithm).point is not Algorithm.point  # which need not be arithmetic
    if not (algorithm.arithmetic and network.takes_arrays) or elsewhere or torch.is_grad_enabled():
        return False
    small = x.numel() <= MOST_NUMBERS and len(x) * x.numel() <= MOST_MULTIPLICATIONS
    return small and x.is_cpu and x.dtype in _DTYPES


class NumpyRounds(Generic[S]):
    """A run whose state is kept in arrays."""

    def __init__(self, algorithm: Algorithm[S], state: S) -> None:
        self._update = np.errstate(all="ignore")(algorithm.update)  # torch does not warn either
        self._arrays: Any = _converted(lambda v: v.numpy(), state)

    @property
    def point(self) -> Tensor:
        return from_numpy(self._arrays[0])

    @property
    def state(self) -> S:
        state: S = _converted(from_numpy, self._arrays)
        return state

    def step(self, g: Tensor, mix: Mix, lr: float) -> None:
        array = (g.detach() if g.requires_grad else g).numpy()
        self._arrays = self._update(self._arrays, array, mix, lr)  # type: ignore[arg-type]


def _converted(convert: Callable[[Any], Any], state: Any) -> Any:
    fields = [_Converted(convert, f) if isinstance(f, Pending) else convert(f) for f in state]
    return type(state)(*fields)


class _Converted(Pending):
    """A message on its way, as an array or a tensor."""

    def __init__(self, convert: Callable[[Any], Any], message: Pending) -> None:
        self._convert, self._message = convert, message

    def wait(self) -> Tensor:
        v: Tensor = self._convert(self._message.wait())
        return v

    def peek(self) -> Tensor:
        v: Tensor = self._convert(self._message.peek())
        return v
