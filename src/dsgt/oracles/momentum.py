"""Momentum: an exponential moving average of a node's own gradients.

    m' = beta m + (1 - beta) g(x)

beta = 0 is the plain gradient. A round costs one gradient of a batch; it keeps one m-vector.
Guarantee: none by itself; what a method promises with it is said where it was published (EDM).
Polyak, Some methods of speeding up the convergence of iteration methods, 1964.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Local, Oracle, parameter


class Average(NamedTuple):
    m: Tensor


@dataclass(frozen=True)
class Momentum(Oracle[Average]):
    beta: float = parameter(0.9, "weight of the past", least=0, below=1)

    keeps: ClassVar[int] = 1

    def init(self, f: Local, x: Tensor) -> Average:
        return Average(torch.zeros_like(x))

    def ask(self, memory: Average, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Average]:
        m = self.beta * memory.m + (1 - self.beta) * f.gradient(x, k)
        return m, Average(m)
