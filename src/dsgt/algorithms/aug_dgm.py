"""Aug-DGM, also called ATC-DIGing: gradient tracking with both exchanges after the adaptation.

    Y' = W (Y + S' - S)
    X' = W (X - lr Y)

Guarantee: linear on strongly convex functions with exact gradients, also with a different step at every node
(Xu et al., 2015; Nedic et al., 2017). Stable on quadratics iff lr L < min(2, (1 + lambda_n)^2 / (2 lambda_n^2)).
Both messages wait for the gradient, one after the other, so neither travels during back-propagation.
The first Y is W S, as in GT-DSGD, which is this method with noise; Xu et al. start with Y = S and mean(y) is the same.
Xu, Zhu, Soh and Xie, Augmented distributed gradient methods for multi-agent optimization, 2015;
Xin, Khan and Kar, An improved convergence analysis for decentralized online stochastic non-convex optimization, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Polynomial


class State(NamedTuple):
    x: Tensor
    y: Tensor
    g: Tensor


@dataclass(frozen=True)
class AugDGM(Algorithm[State]):
    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    uncoordinated: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("y", "g")
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, y=zero, g=zero)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = mix(g + (s.y - s.g))
        x = mix(s.x - lr * y)
        return State(x, y, g)

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(2 * w - c * w**2), w**2 - c * w**2
