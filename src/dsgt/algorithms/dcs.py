"""DCS, decentralized communication sliding: for convex functions with kinks; T local subgradient steps for two mixings.

    U = (X + t/2 U - lr (V + S)) / (1 + t/2),   for t = 1 ... T, from U = X on; then X' = U
    A = sum of (t + 1) U / sum of (t + 1)
    Y' = Y + (I - W) (A + X' - X) / (2 lr high^2),   V' = (I - W) Y'

S are subgradients of all samples of a node at U, and high is the largest eigenvalue of I - W. sum(y) = sum(v) = 0.
What it promises is the mean of all A so far, which is the model of a run: ``Algorithm.model``. Needs equal starts.
The paper's eta is 1 / lr, and its tau 2 lr high^2: it takes lr = 1 / (2 high).
Guarantee: a loss within eps of the lowest, and nodes within eps of each other, after O(1/eps) mixings and O(1/eps^2)
subgradients (Lan et al., 2020). With a constant T it stops at a distance that falls with T where the
functions have kinks. W must be symmetric. With subgradients of drawn batches it is SDCS.
Lan, Lee and Zhou, Communication-efficient algorithms for decentralized and stochastic optimization, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.algorithms.sliding import Sliding
from dsgt.core import Mix, parameter


class State(NamedTuple):
    x: Tensor
    centre: Tensor
    total: Tensor
    y: Tensor
    v: Tensor
    mean: Tensor


@dataclass(frozen=True)
class DCS(Sliding[State]):
    T: int = parameter(20, "local steps for two mixings", least=1)

    zero_sum: ClassVar[str] = "v"

    @property
    def sends(self) -> float:  # type: ignore[override]
        return 2 / self.T

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, centre=x, total=zero, y=zero, v=zero, mean=x)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        phase, t = divmod(mix.k, self.T)
        u = (s.centre + (t + 1) / 2 * s.x - lr * (s.v + g)) / (1 + (t + 1) / 2)
        total = s.total + (t + 2) * u
        if t + 1 < self.T:
            return s._replace(x=u, total=total)
        a = total / (self.T * (self.T + 3) / 2)
        y = s.y - mix.flow(a + u - s.centre) / (2 * lr * self.high**2)
        return State(u, u, torch.zeros_like(u), y, v=-mix.flow(y), mean=s.mean + (a - s.mean) / (phase + 1))
