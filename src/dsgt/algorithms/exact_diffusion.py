"""Exact Diffusion, also called NIDS: D² with W~ = (I + W)/2 in place of W.

    X'' = W~ (2 X' - X - lr' S' + lr S),   first step X' = W~ (X - lr S)

written with the sum d of the flows, which needs no first-step branch and does not drift in float32:

    Z = X - lr S - d,   F = (W~ - I) Z = (W - I) Z / 2,   X' = Z + F,   d' = d - F

Guarantee: linear on strongly convex functions for lr < 2/L, whatever the network (Li, Shi and Yan, 2019, Theorem 1).
Yuan, Ying, Zhao and Sayed, Exact diffusion for distributed optimization and learning, 2019; Li, Shi and Yan, A
decentralized proximal-gradient method with network independent step-sizes, 2019.
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
class ExactDiffusion(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = True
    zero_sum: ClassVar[str] = "d"
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, d=torch.zeros_like(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        z = s.x - lr * g - s.d
        F = mix.flow(z) / 2
        return State(z + F, d=s.d - F)

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(2 - c) * (1 + w) / 2, (1 - c) * (1 + w) / 2
