"""Momentum Tracking: every node's own momentum, and a correction that takes out what the nodes' data cost.

    U' = beta U + S
    X' = W X - lr (U' - C)
    C' = W (C - U') + U' = C + (W - I)(C - U')

C tells a node how far its momentum is from that of all: sum(c) = 0 always, and the mean model follows centralized
momentum SGD. beta = 0 is GNSD.
Guarantee: O(1 / sqrt(n K)) with noise, whatever the nodes' data and for every beta below 1 (Takezawa et al., 2023,
for symmetric W). Exact with a constant step.
C starts at 0. The paper starts it at (S - mean(S)) / (1 - beta), which no node can compute without asking all others,
and with which beta = 0 would not be GNSD; both converge. Both messages travel during back-propagation.
Takezawa, Bao, Niwa, Sato and Yamada, Momentum tracking: momentum acceleration for decentralized deep learning on
heterogeneous data, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Eigenvalues, Mix, Pending, Polynomial, parameter


class State(NamedTuple):
    x: Tensor
    u: Tensor
    c: Tensor
    F: Pending
    Wx: Pending


@dataclass(frozen=True)
class MomentumTracking(Algorithm[State]):
    beta: float = parameter(0.9, "momentum: the share of the last direction that is kept", least=0, below=1)

    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    keeps_x: ClassVar[bool] = True
    zero_sum: ClassVar[str] = "c"
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, u=zero, c=zero, F=Done(zero), Wx=mix.start(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        u = self.beta * s.u + g
        c = s.c + s.F.wait()
        x = s.Wx.wait() - lr * (u - c)
        return State(x, u, c, F=mix.start_flow(c - u), Wx=mix.start(x))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, c - self.beta - 2 * w, w**2 + 2 * self.beta * w - c, -self.beta * w**2
