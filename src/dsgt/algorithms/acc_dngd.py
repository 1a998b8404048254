"""Acc-DNGD: Nesterov's acceleration over gradient tracking.

    Y' = W Y + S' - S,   a = sqrt(mu lr)
    V' = (1 - a) W V + a W X - sqrt(lr / mu) Y'
    X' = (W X - lr Y' + a V') / (1 + a)

and for mu = 0, convex functions, with q = L at first: a from a^2 = lr q (1 - a), V' = W V - sqrt(lr / q) Y',
X' = (1 - a) (W X - lr Y') + a V', q' = (1 - a) q. The paper makes a of the next lr, which is unknown here.
Guarantee: (1 - C (mu / L)^(5/7))^k for lr = O(mu^(3/7) / L^(10/7)), and for mu = 0, equal starts and an lr that
vanishes slowly O(1 / k^(1.4 - e)), for symmetric W (Qu and Li, 2019). It bears much smaller steps than DSGT.
Qu and Li, Accelerated distributed Nesterov gradient descent, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Mix, Needs, Pending, parameter


class State(NamedTuple):
    x: Tensor
    g: Tensor
    q: Tensor
    Wy: Pending
    Wx: Pending
    Wv: Pending


@dataclass(frozen=True)
class AccDNGD(Algorithm[State]):
    mu: float = parameter(0.01, "strong convexity; 0 for the form for convex functions", least=0)
    L: float = parameter(1.0, "smoothness, where mu = 0", above=0)

    needs: ClassVar[Needs] = Needs(symmetric=True)
    sends: ClassVar[int] = 3
    exact: ClassVar[bool] = True
    keeps_x: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("Wy", "g")

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, zero, torch.full_like(x, self.L), Done(zero), Wx=mix.start(x), Wv=mix.start(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y, Wx, Wv, q = g + (s.Wy.wait() - s.g), s.Wx.wait(), s.Wv.wait(), s.q
        if self.mu:
            a = (self.mu * lr) ** 0.5
            v = (1 - a) * Wv + a * Wx - (lr / self.mu) ** 0.5 * y
            x = (Wx - lr * y + a * v) / (1 + a)
        else:
            a = ((lr * q * (lr * q + 4)) ** 0.5 - lr * q) / 2
            v = Wv - (lr / q) ** 0.5 * y
            x, q = (1 - a) * (Wx - lr * y) + a * v, (1 - a) * q
        return State(x, g, q, Wy=mix.start(y), Wx=mix.start(x), Wv=mix.start(v))
