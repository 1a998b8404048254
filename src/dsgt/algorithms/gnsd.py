"""GNSD; with exact gradients, DIGing. Gradient tracking, combine then adapt.

    X' = W X - lr Y
    Y' = W Y + S' - S

Guarantee: O(1/sqrt(K)) with noise (Lu et al., 2019, Theorem 1), linear on strongly convex functions with exact
gradients (Nedic et al., 2017). Stable on quadratics iff lr L < (1 + lambda_n)^2 / 2, up to four times less than DSGT
at lambda_n = 0 and worse below; in exchange both messages travel during back-propagation.
Lu et al., GNSD: a gradient-tracking based nonconvex stochastic algorithm, 2019; Qu and Li, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Eigenvalues, Mix, Pending, Polynomial


class State(NamedTuple):
    x: Tensor
    g: Tensor
    Wx: Pending
    Wy: Pending


@dataclass(frozen=True)
class GNSD(Algorithm[State]):
    sends: ClassVar[int] = 2
    keeps_x: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("Wy", "g")
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, g=zero, Wx=mix.start(x), Wy=Done(zero))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = g + (s.Wy.wait() - s.g)
        x = s.Wx.wait() - lr * y
        return State(x, g, Wx=mix.start(x), Wy=mix.start(y))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(2 * w - c), w**2 - c
