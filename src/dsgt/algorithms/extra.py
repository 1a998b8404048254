"""EXTRA, with W~ = (I + W)/2.

    X'' = (I + W) X' - W~ X - lr' S' + lr S,   first step X' = W X - lr S

written with the sum q of what W~ - W took away, which needs no first-step branch and does not drift in float32:

    F = (W - I) X,   X' = X + F - lr S - q,   q' = q - F/2

Guarantee: o(1/k) on convex functions, linear on strongly convex ones, for lr < 2 lambda_min(W~) / L (Shi et al.,
2015, Theorems 3.5 and 3.7). Stable on quadratics iff lr L < (5 + 3 lambda_n)/4. W X travels during back-propagation.
Shi, Ling, Wu and Yin, EXTRA: an exact first-order algorithm for decentralized consensus optimization, 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Needs, Pending, Polynomial


class State(NamedTuple):
    x: Tensor
    q: Tensor
    F: Pending


@dataclass(frozen=True)
class EXTRA(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    sends: ClassVar[int] = 1
    keeps_x: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    zero_sum: ClassVar[str] = "q"
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, q=torch.zeros_like(x), F=mix.start_flow(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        F = s.F.wait()
        x = s.x + F - lr * g - s.q
        return State(x, q=s.q - F / 2, F=mix.start_flow(x))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(1 + w - c), (1 + w) / 2 - c
