"""Momentum DSGD: every node's own momentum, mixed like its model.

    V = beta U + S
    X' = W (X - lr V)
    U' = W V

beta = 0 is adapt-then-combine D-PSGD. The mean model follows centralized momentum SGD.
Guarantee: O(1 / sqrt(n K)) with noise and lr = O(sqrt(n / K)) (Yu et al., 2019, for symmetric W). A constant step
leaves an O(lr) distance when the nodes' data differ, larger than that of D-PSGD with the same lr. Stable on quadratics
iff lr L < 2 (1 + beta), whatever W. The message W V is needed only after the next gradient, so it travels during
back-propagation.
Yu, Jin and Yang, On the linear speedup analysis of communication efficient momentum SGD for distributed non-convex
optimization, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Eigenvalues, Mix, Pending, Polynomial, parameter


class State(NamedTuple):
    x: Tensor
    u: Pending


@dataclass(frozen=True)
class MomentumDSGD(Algorithm[State]):
    beta: float = parameter(0.9, "momentum: the share of the last direction that is kept", least=0, below=1)

    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = False
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, u=Done(torch.zeros_like(x)))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        v = self.beta * s.u.wait() + g
        x = mix(s.x - lr * v)
        return State(x, u=mix.start(v))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(1 + self.beta - c) * w, self.beta * w**2
