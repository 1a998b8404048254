"""DSMT, distributed stochastic momentum tracking: momentum is tracked, and both mixings are accelerated.

    Z' = beta Z + (1 - beta) S
    Y' = M(Y + Z' - Z),   X' = M(X - lr Y')

where M(V) = (1 + eta) W~ V - eta V_before is one step of Chebyshev's recursion, without an inner loop: W~ = (I + W)/2,
and V_before is what M was given a round ago, moved as V was. With lam the second largest eigenvalue of W~ and
r = (1 - sqrt(1 - lam^2)) / (1 + sqrt(1 - lam^2)): eta = (1 + r) / 2, beta = sqrt(eta). mean(y) = mean(z).
Guarantee: as fast as centralized SGD after O(n^(5/3) / (1 - lam)) rounds, under the condition of Polyak and
Lojasiewicz after O(sqrt(n / (1 - lam))), for symmetric W (Huang, Pu and Nedic, 2024). Exact with a constant step.
The first Y is mixed; in the paper it is (1 - beta) S as it is.
Huang, Pu and Nedic, An accelerated distributed stochastic gradient method with momentum, 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Mix, Needs, parameter


class State(NamedTuple):
    x: Tensor
    xl: Tensor
    y: Tensor
    yl: Tensor
    z: Tensor


@dataclass(frozen=True)
class DSMT(Algorithm[State]):
    lam: float = parameter(0.9, "the second largest eigenvalue of (I + W)/2", least=0, below=1)

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("y", "z")
    keeps_x: ClassVar[bool] = True
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, x, zero, zero, zero)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        root = (1 - self.lam**2) ** 0.5
        eta = 1 / (1 + root)
        change = (1 - eta**0.5) * (g - s.z)
        yl = s.y + change
        y = yl + (1 + eta) / 2 * mix.flow(yl) + eta * (s.y - s.yl)
        xl = s.x - lr * y
        x = xl + (1 + eta) / 2 * mix.flow(xl) + eta * (s.x - s.xl)
        return State(x, xl, y, yl, s.z + change)
