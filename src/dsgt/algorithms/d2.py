"""D², decentralized training over decentralized data.

    X'' = W (2 X' - X - lr' S' + lr S),   first step X' = W (X - lr S)

written with the sum d of the flows, which needs no first-step branch and does not drift in float32:

    Z = X - lr S - d,   F = (W - I) Z,   X' = Z + F,   d' = d - F

Guarantee: O(sigma / sqrt(n K)) whatever the nodes' data (Tang et al., 2018, Theorem 2). Needs lambda_n > -1/3: below
that it diverges for every small step, on quadratics for lr L < (3|lambda_n| - 1) / (2|lambda_n|); above, it is stable
iff lr L < 2. mean(x') = mean(x) - lr mean(s) always.
Tang, Lian, Yan, Zhang and Liu, D²: Decentralized training over decentralized data, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Needs, Polynomial


class State(NamedTuple):
    x: Tensor
    d: Tensor


@dataclass(frozen=True)
class D2(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(symmetric=True, floor=-1 / 3, static=True)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = True
    zero_sum: ClassVar[str] = "d"
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, d=torch.zeros_like(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        z = s.x - lr * g - s.d
        F = mix.flow(z)
        return State(z + F, d=s.d - F)

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(2 - c) * w, (1 - c) * w
