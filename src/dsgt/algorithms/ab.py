"""AB; with noise S-AB. Push-Pull in the order combine then adapt.

    X' = A X - lr Y
    Y' = B Y + S' - S

The rows of A = W sum to 1, and the columns of B = ``push`` of the weights: ``topologies.TwoMatrices``. Where there is
only one W, B = A and it is GNSD. mean(y) = mean(s) after every round.
Guarantee: linear on smooth strongly convex functions, for a small step: to the optimum with exact gradients (Xin and
Khan, 2018), to a ball of the size of the noise otherwise (Xin et al., 2019). Both messages travel during
back-propagation, but it bears smaller steps than Push-Pull.
Xin and Khan, A linear algorithm for optimization over directed graphs with geometric convergence, 2018; Xin, Sahu, Khan
and Kar, Distributed stochastic optimization with gradient tracking over strongly-connected networks, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Eigenvalues, Mix, Needs, Pending, Polynomial


class State(NamedTuple):
    x: Tensor
    g: Tensor
    Ax: Pending
    By: Pending


@dataclass(frozen=True)
class AB(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(columns=False, push=Needs(rows=False))
    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    keeps_x: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("By", "g")

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, g=zero, Ax=mix.start(x), By=Done(zero))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = g + (s.By.wait() - s.g)
        x = s.Ax.wait() - lr * y
        return State(x, g, Ax=mix.start(x), By=mix.push.start(y))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(2 * w - c), w**2 - c  # for B = A
