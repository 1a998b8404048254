"""SARAH: an exact gradient now and then, and in between what the drawn batch says of the way since the last round.

    v' = v + g(x'; batch) - g(x; batch),   v = grad f(x) every so many rounds

The same batch at both points. Biased, but its error falls with the steps between two passes over all samples. A round
costs two gradients of a batch, and a restart a pass. It keeps two m-vectors.
Guarantee: linear on strongly convex functions (Nguyen et al., 2017); O(sqrt(N) / eps^2) gradients to a
stationary point of a smooth one, also with restarts at random (``loopless``; Li et al., 2021).
Nguyen, Liu, Scheinberg and Takac, SARAH: a novel method for machine learning problems using stochastic recursive
gradient, 2017; Li, Bao, Zhang and Richtarik, PAGE: a simple and optimal probabilistic gradient estimator, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Local, Oracle, parameter
from dsgt.oracles.restarts import restarts


class Last(NamedTuple):
    x: Tensor
    v: Tensor
    """What was answered at x."""


@dataclass(frozen=True)
class SARAH(Oracle[Last]):
    every: int = parameter(50, "rounds between two exact gradients, in the mean where they are random", least=1)
    loopless: bool = parameter(False, "whether each round looks at all samples with probability 1/every")

    wants: ClassVar[tuple[str, ...]] = ("gradient", "full")
    agrees: ClassVar[bool] = True
    keeps: ClassVar[int] = 2

    def init(self, f: Local, x: Tensor) -> Last:
        return Last(x.clone(), torch.zeros_like(x))

    def ask(self, memory: Last, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Last]:
        if restarts(f, k, self.every, loopless=self.loopless):
            v = f.full(x)
        else:
            v = memory.v + f.gradient(x, k) - f.gradient(memory.x, k)
        return v, Last(x.clone(), v)
