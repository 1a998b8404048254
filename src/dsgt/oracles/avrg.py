"""AVRG, amortised variance reduction: the exact gradient of SVRG is gathered along the way, under random reshuffling.

    s = g_j(x) - g_j(z) + a,   z: the model when the epoch began,   a: the mean of the g_j(x) of the epoch before

An epoch goes through the q parts of a node's samples in a random order. In the first one s = g_j(x). A round costs two
gradients of a part, and no pass over all samples is needed. It keeps three m-vectors and an order of q numbers.
With q = 1 it is a gradient one round old, not the exact one.
Guarantee: linear on strongly convex functions (Ying et al., 2020).
Ying, Yuan and Sayed, Variance-reduced stochastic learning under random reshuffling, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt import randomness
from dsgt.core import Local, Oracle, parameter
from dsgt.oracles.table import ORDERS


class Epoch(NamedTuple):
    z: Tensor
    """The model when it began."""
    before: Tensor
    """The mean of the gradients of the epoch before it."""
    sum: Tensor
    """Of its own gradients so far, over q."""
    order: Tensor
    """(..., q)"""


@dataclass(frozen=True)
class AVRG(Oracle[Epoch]):
    q: int = parameter(10, "parts that every node's samples are cut into: the rounds of an epoch", least=1)

    wants: ClassVar[tuple[str, ...]] = ("part",)
    keeps: ClassVar[int] = 3

    def check(self, f: Local, x: Tensor) -> None:
        f.check(self.wants, self.q)

    def init(self, f: Local, x: Tensor) -> Epoch:
        zero = torch.zeros_like(x)
        return Epoch(x.clone(), zero, zero, self._order(f, 0))

    def ask(self, memory: Epoch, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Epoch]:
        epoch, i = divmod(k, self.q)
        if i == 0:
            memory = Epoch(x.clone(), memory.sum, torch.zeros_like(x), self._order(f, epoch))
        j = memory.order[..., i : i + 1]
        g = f.part(x, j, self.q)
        after = memory._replace(sum=torch.add(memory.sum, g, alpha=1 / self.q))
        if epoch == 0:
            return g, after
        if i == 0:
            return memory.before, after  # x is z
        return memory.before + g.sub_(f.part(memory.z, j, self.q)), after

    def _order(self, f: Local, epoch: int) -> Tensor:
        return randomness.bits(f.seed, ORDERS, f.rows, epoch, torch.arange(self.q)).argsort(dim=-1)
