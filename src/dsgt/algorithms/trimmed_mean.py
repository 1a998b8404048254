"""Trimmed mean: a node leaves out the b largest and the b smallest of what it hears, in every coordinate.

    X_i' = mean of X_i and of what is left of {X_j : j a neighbour of i} - lr S_i

So b liars among the neighbours cannot move a coordinate out of the range of the honest ones. W says who hears whom; its
weights are not used. A node with 2 b neighbours or fewer listens to nobody: have more than 2 b around every node.
Guarantee: for strongly convex functions every honest node comes close to the same point, a minimiser of some weighting
of the honest nodes' functions (BRIDGE-T; Fang, Yang and Bajwa, 2022); with different data that is not their mean's.
Fang, Yang and Bajwa, BRIDGE: Byzantine-resilient decentralized gradient descent, 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Mix, Needs, parameter


class State(NamedTuple):
    x: Tensor


@dataclass(frozen=True)
class TrimmedMean(Algorithm[State]):
    b: int = parameter(1, "how many neighbours may lie: so many values are left out at each end", least=0)

    needs: ClassVar[Needs] = Needs(columns=False)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        x, nobody = s.x.unsqueeze(-2), (mix.hears < 0).unsqueeze(-1).to(s.x.device)
        heard = mix.exchange(x).masked_fill(nobody, math.inf).sort(dim=-2).values  # a NaN is larger than all
        place = torch.arange(heard.shape[-2], device=x.device).unsqueeze(-1)
        left = (place >= self.b) & (place < (~nobody).sum(dim=-2, keepdim=True) - self.b)
        total = x + heard.masked_fill(~left, 0.0).sum(dim=-2, keepdim=True)
        return State((total / (1 + left.sum(dim=-2, keepdim=True))).squeeze(-2) - lr * g)
