"""SVRG: the exact gradient at a snapshot z of the model, and the difference to it on the drawn batch.

    s = g(x; batch) - g(z; batch) + grad f(z),   z <- x every so many rounds

The mean of s over the draws is the exact gradient, and its variance vanishes as x and z approach the optimum. A round
costs two gradients of a batch, and a snapshot a pass over all samples. It keeps two m-vectors.
Guarantee: linear on strongly convex functions (Johnson and Zhang, 2013, Theorem 1); with snapshots at random instead
(``loopless``) too (Kovalev et al., 2020).
Johnson and Zhang, Accelerating stochastic gradient descent using predictive variance reduction, 2013; Kovalev,
Horvath and Richtarik, Don't jump through hoops and remove those loops, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Local, Oracle, parameter
from dsgt.oracles.restarts import restarts


class Snapshot(NamedTuple):
    z: Tensor
    full: Tensor
    """The exact gradient at z."""


@dataclass(frozen=True)
class SVRG(Oracle[Snapshot]):
    every: int = parameter(50, "rounds between two snapshots, in the mean where they are random", least=1)
    loopless: bool = parameter(False, "whether each round takes a snapshot with probability 1/every")

    wants: ClassVar[tuple[str, ...]] = ("gradient", "full")
    agrees: ClassVar[bool] = True
    keeps: ClassVar[int] = 2

    def init(self, f: Local, x: Tensor) -> Snapshot:
        return Snapshot(x.clone(), torch.zeros_like(x))

    def ask(self, memory: Snapshot, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Snapshot]:
        if restarts(f, k, self.every, loopless=self.loopless):
            full = f.full(x)
            return full, Snapshot(x.clone(), full)  # both gradients of the batch are the same here
        return f.gradient(x, k) - f.gradient(memory.z, k) + memory.full, memory
