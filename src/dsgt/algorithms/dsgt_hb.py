"""DSGT-HB, gradient tracking with heavy ball: the momentum is a moving mean of the tracker.

    Y' = W (Y + S' - S)
    U' = beta U + (1 - beta) Y'
    X' = W (X - lr U')

mean(y) = mean(s) after every round, so the mean model follows centralized SGD with a moving mean of its gradients.
beta = 0 is Aug-DGM. A step is 1 - beta of what torch.optim.SGD takes with the same momentum and lr.
Guarantee: linear on smooth strongly convex functions with exact gradients, for a small step and a small beta (Xin and
Khan, 2020, for the directed form AB). Exact with a constant step. U starts at 0.
Xin and Khan, Distributed heavy-ball: a generalization and acceleration of first-order methods with gradient tracking,
2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Polynomial, parameter


class State(NamedTuple):
    x: Tensor
    u: Tensor
    y: Tensor
    g: Tensor


@dataclass(frozen=True)
class DSGTHB(Algorithm[State]):
    beta: float = parameter(0.9, "momentum: the share of the last direction that is kept", least=0, below=1)

    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    uncoordinated: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("y", "g")
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, u=zero, y=zero, g=zero)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = mix(g + (s.y - s.g))
        u = self.beta * s.u + (1 - self.beta) * y
        return State(mix(s.x - lr * u), u, y, g)

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        b, a = self.beta, (1 - self.beta) * c * w**2
        return 1, a - b - 2 * w, w**2 + 2 * b * w - a, -b * w**2
