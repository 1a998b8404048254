"""Centralized mini-batch SGD, the reference.

    X' = J (X - lr S),   J = 11'/n

Every node applies the mean gradient of all, so with equal starts all models stay equal and follow
x' = x - lr mean(s). On real nodes the mixing is one all-reduce.
Guarantee: O(sqrt(L D sigma^2 / (M K)) + L D / K) for lr <= 1/L (Lan, First-order and Stochastic Optimization
Methods for Machine Learning, 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Needs, Polynomial


class State(NamedTuple):
    x: Tensor


@dataclass(frozen=True)
class SGD(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(average=True)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = True
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(mix(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        return State(mix(s.x - lr * g))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(1 - c) * w
