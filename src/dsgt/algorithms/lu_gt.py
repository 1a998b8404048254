"""LU-GT, gradient tracking with local updates: of K rounds the nodes mix in one, models and trackers.

    Y' = M (Y + S' - S)
    X' = M (X - lr Y')

M = W in every K-th round and I in the others. mean(y) = mean(s) after every round, so the mean model follows
centralized SGD. K = 1 is Aug-DGM; in general it is Aug-DGM over ``topologies.Periodic``.
Guarantee: O(1/T) for smooth functions with exact gradients, for a step that falls with K (Nguyen et al., 2023). Exact
with a constant step. Both sequences are mixed after the adaptation, which bears larger steps than mixing only one so.
Nguyen, Alghunaim, Yuan and Uribe, On the performance of gradient tracking with local updates, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Mix, parameter


class State(NamedTuple):
    x: Tensor
    y: Tensor
    g: Tensor


@dataclass(frozen=True)
class LUGT(Algorithm[State]):
    K: int = parameter(4, "of so many rounds the nodes mix in the last", least=1)

    exact: ClassVar[bool] = True
    uncoordinated: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("y", "g")

    @property
    def sends(self) -> float:  # type: ignore[override]
        return 2 / self.K

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, y=zero, g=zero)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = g + (s.y - s.g)
        if (mix.k + 1) % self.K:
            return State(s.x - lr * y, y, g)
        y = mix(y)
        return State(mix(s.x - lr * y), y, g)
