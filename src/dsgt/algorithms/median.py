"""Coordinate-wise median: in every coordinate the middle one of a node's own value and those of its neighbours.

    X_i' = median of X_i and {X_j : j a neighbour of i} - lr S_i

So liars that are fewer than half of a node and its neighbours cannot move a coordinate out of the range of the honest
ones; of two middle values it takes the mean. W says who hears whom; its weights are not used. NaN is not heard.
Guarantee: honest nodes come near each other, as with the trimmed mean (BRIDGE-M; Fang, Yang and Bajwa, 2022); to which
point, with different data, is not said: it is not the optimum.
Fang, Yang and Bajwa, BRIDGE: Byzantine-resilient decentralized gradient descent, 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Mix, Needs


class State(NamedTuple):
    x: Tensor


@dataclass(frozen=True)
class Median(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(columns=False)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        x, nobody = s.x.unsqueeze(-2), (mix.hears < 0).unsqueeze(-1).to(s.x.device)
        known = torch.cat([x, mix.exchange(x).masked_fill(nobody, math.nan)], dim=-2)
        low, high = known.nanmedian(dim=-2).values, -(-known).nanmedian(dim=-2).values
        return State((low + high) / 2 - lr * g)
