"""DecentLaM, momentum SGD for large batches: the momentum does not multiply what different data cost.

    G = (X - W (X - lr S)) / lr
    M' = beta M + G
    X' = X - lr M'

G is the gradient of which adapt-then-combine D-PSGD is a step, so beta = 0 is that method; it is computed from the
flow, S - (W - I)(X - lr S) / lr. The mean model follows centralized momentum SGD.
Guarantee: converges for non-convex and for strongly convex functions; with a constant step it stops where
adapt-then-combine D-PSGD stops, O(lr) away, whatever beta (Yuan et al., 2021). Stable on quadratics iff
lr L < min(2 (1 + beta), 1 + 1 / |lambda_n|), the second for lambda_n < 0. Where W has complex eigenvalues, as directed
rings have, it diverges with beta = 0.9 at every small step, so W must be symmetric.
Yuan, Chen, Huang, Zhang, Pan, Xu and Yin, DecentLaM: decentralized momentum SGD for large-batch deep training, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Needs, Polynomial, parameter


class State(NamedTuple):
    x: Tensor
    m: Tensor


@dataclass(frozen=True)
class DecentLaM(Algorithm[State]):
    beta: float = parameter(0.9, "momentum: the share of the last direction that is kept", least=0, below=1)

    needs: ClassVar[Needs] = Needs(symmetric=True)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False
    divides_by_lr: ClassVar[bool] = True
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, m=torch.zeros_like(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        m = self.beta * s.m + (g - mix.flow(s.x - lr * g) / lr)
        return State(s.x - lr * m, m)

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(self.beta + (1 - c) * w), self.beta
