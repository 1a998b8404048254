"""Decentralized AMSGrad: the nodes agree on the numbers that AMSGrad divides by, by tracking them.

    M' = beta1 M + (1 - beta1) S,   V' = beta2 V + (1 - beta2) S^2,   H' = max(H, V')
    X' = W X - lr M' / sqrt(max(W U, eps))
    U' = W U + H' - H

U and H start at eps, so mean(u) = mean(h) after every round. Adam of every node's own V goes to a wrong point,
however small the step.
Guarantee: O(1 / sqrt(K)) to a stationary point of smooth functions, with noise (Chen et al., 2023). A constant step
leaves an O(lr) distance when the nodes' data differ. Both messages travel during back-propagation.
Chen, Karimi, Zhao and Li, On the convergence of decentralized adaptive gradient methods, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Mix, Pending, parameter


class State(NamedTuple):
    x: Tensor
    m: Tensor
    v: Tensor
    h: Tensor
    Wu: Pending
    Wx: Pending


@dataclass(frozen=True)
class DecentralizedAMSGrad(Algorithm[State]):
    beta1: float = parameter(0.9, "the share of M that is kept", least=0, below=1)
    beta2: float = parameter(0.999, "the share of V that is kept", least=0, below=1)
    eps: float = parameter(0.01, "where U begins, and the least that it may be", above=0)

    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = False
    keeps_x: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        zero, least = torch.zeros_like(x), torch.full_like(x, self.eps)
        return State(x, m=zero, v=zero, h=least, Wu=Done(least), Wx=mix.start(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        m = self.beta1 * s.m + (1 - self.beta1) * g
        v = self.beta2 * s.v + (1 - self.beta2) * g * g
        h, u = torch.maximum(s.h, v), s.Wu.wait()
        x = s.Wx.wait() - lr * (m / u.clamp(min=self.eps).sqrt())
        return State(x, m, v, h, Wu=mix.start(u + (h - s.h)), Wx=mix.start(x))
