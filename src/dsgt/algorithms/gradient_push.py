"""Gradient-push: the subgradient-push of Nedic and Olshevsky over directed graphs, with P = W column stochastic.

    V' = P (V - lr S(X))
    w' = P w
    X' = V' / w'

V and w begin with P X_0 and P 1; from there on X is that of SGP. sum(w) = n always. What it promises is the mean of all
X, the k-th with weight k - 1, which is the model of a run: ``Algorithm.model``.
Guarantee: O(log K / K) for strongly convex functions with noise and lr = p / k, p mu >= 4 (Nedic and Olshevsky, 2016).
A constant step leaves an O(lr) distance when the nodes' data differ.
Nedic and Olshevsky, Stochastic gradient-push for strongly convex functions on time-varying directed graphs, 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Needs, Polynomial


class State(NamedTuple):
    x: Tensor
    v: Tensor
    w: Tensor
    mean: Tensor
    t: Tensor


@dataclass(frozen=True)
class GradientPush(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(rows=False)
    sends: ClassVar[int] = 1  # and one number, in the same message
    keeps_x: ClassVar[bool] = True
    exact: ClassVar[bool] = False

    def init(self, x: Tensor, mix: Mix) -> State:
        one = torch.ones_like(x[..., :1])
        v, w = mix.together(x, one)
        return State(v / w, v, w, mean=v / w, t=one)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        v, w = mix.together(s.v - lr * g, s.w)
        x = v / w
        return State(x, v, w, s.mean + (x - s.mean) * 2 / (s.t + 1), s.t + 1)

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(1 - c) * w  # for a doubly stochastic W

    def model(self, s: State) -> Tensor:
        return s.mean
