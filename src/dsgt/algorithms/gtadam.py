"""GTAdam: Adam built from the tracker, so that every node divides by nearly the same numbers.

    Y' = W Y + S' - S
    M' = beta1 M + (1 - beta1) Y'
    V' = min(beta2 V + (1 - beta2) Y'^2, cap)
    X' = W X - lr M' / sqrt(V' + eps)

Guarantee: linear on smooth strongly convex functions with exact gradients, for a small step (Carnevale et al., 2022).
Exact with a constant step, where Adam of every node's own gradients goes to another point. Near the optimum
V vanishes and a step is lr / sqrt(eps), which is what must be small: hence the large eps.
Carnevale, Farina, Notarnicola and Notarstefano, GTAdam: gradient tracking with adaptive momentum for distributed
online optimization, 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Mix, Pending, parameter


class State(NamedTuple):
    x: Tensor
    m: Tensor
    v: Tensor
    g: Tensor
    Wy: Pending
    Wx: Pending


@dataclass(frozen=True)
class GTAdam(Algorithm[State]):
    beta1: float = parameter(0.9, "the share of M that is kept", least=0, below=1)
    beta2: float = parameter(0.999, "the share of V that is kept", least=0, most=1)
    eps: float = parameter(0.01, "added to V: a step is at most lr / sqrt(eps) times M", above=0)
    cap: float = parameter(math.inf, "the largest V", above=0)

    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    keeps_x: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("Wy", "g")

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, m=zero, v=zero, g=zero, Wy=Done(zero), Wx=mix.start(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = g + (s.Wy.wait() - s.g)
        m = self.beta1 * s.m + (1 - self.beta1) * y
        v = (self.beta2 * s.v + (1 - self.beta2) * y * y).clamp(max=self.cap)
        x = s.Wx.wait() - lr * (m / (v + self.eps).sqrt())
        return State(x, m, v, g, Wy=mix.start(y), Wx=mix.start(x))
