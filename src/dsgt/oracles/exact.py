"""Exact: the gradient of all of a node's samples, in every round.

    s = grad f_i(x)

A subgradient where f_i has a kink. A round costs a pass over all samples. It keeps nothing.
Guarantee: no noise is left, so every exact method converges to the optimum with a constant lr.
Cauchy, Methode generale pour la resolution des systemes d'equations simultanees, 1847.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dsgt.core import Local, Nothing, Oracle


@dataclass(frozen=True)
class Exact(Oracle[Nothing]):
    wants: ClassVar[tuple[str, ...]] = ("full",)
    agrees: ClassVar[bool] = True

    def init(self, f: Local, x: Tensor) -> Nothing:
        return Nothing()

    def ask(self, memory: Nothing, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Nothing]:
        return f.full(x), memory
