"""Push-Pull: models are pulled with one matrix, trackers pushed with another, so a directed graph needs no balance.

    X' = A (X - lr Y)
    Y' = B Y + S' - S

The rows of A = W sum to 1, and the columns of B = ``push`` of the weights: ``topologies.TwoMatrices``. Where there is
only one W, B = A and it is DSGT. mean(y) = mean(s) after every round.
Guarantee: linear on smooth strongly convex functions with exact gradients, for a small step (Pu et al., 2021). Exact
with a constant step. The message B Y travels during back-propagation.
Pu, Shi, Xu and Nedic, Push-pull gradient methods for distributed optimization in networks, 2021.
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
    By: Pending


@dataclass(frozen=True)
class PushPull(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(columns=False, push=Needs(rows=False))
    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    uncoordinated: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("By", "g")

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, g=zero, By=Done(zero))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = g + (s.By.wait() - s.g)
        x = mix(s.x - lr * y)
        return State(x, g, By=mix.push.start(y))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(2 - c) * w, w**2 - c * w  # for B = A
