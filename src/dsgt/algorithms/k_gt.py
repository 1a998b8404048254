"""K-GT, gradient tracking with K local steps between two mixings.

    X' = X - lr (S + C),   in K rounds from X_0 on; then
    D = (X_0 - X') / (the sum of their lr)
    X' = W (X_0 - eta (X_0 - X')),   C' = C + (W - I) D

C corrects a node's gradients towards those of all: sum(c) = 0 always, and with eta = 1 the mean model follows
centralized SGD. K = 1 and eta = 1 is DSGT.
Guarantee: O(1 / sqrt(n K R)) after R mixings with noise, whatever the nodes' data (Liu et al., 2023, for symmetric W).
Exact with a constant step.
Liu, Lin, Koloskova and Stich, Decentralized gradient tracking with local steps, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Mix, parameter


class State(NamedTuple):
    x: Tensor
    start: Tensor
    c: Tensor
    total: Tensor


@dataclass(frozen=True)
class KGT(Algorithm[State]):
    K: int = parameter(4, "local steps between two mixings", least=1)
    eta: float = parameter(1.0, "the part of the way of these steps that is gone", above=0)

    exact: ClassVar[bool] = True
    keeps_x: ClassVar[bool] = True
    divides_by_lr: ClassVar[bool] = True
    zero_sum: ClassVar[str] = "c"

    @property
    def sends(self) -> float:  # type: ignore[override]
        return 2 / self.K

    @property
    def phase(self) -> int:  # type: ignore[override]
        return self.K

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, start=x, c=zero, total=zero)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        x, total = s.x - lr * (g + s.c), s.total + lr
        if (mix.k + 1) % self.K:
            return State(x, s.start, s.c, total)
        c = s.c + mix.flow((s.start - x) / total)
        x = mix(x + (1 - self.eta) * (s.start - x))
        return State(x, start=x, c=c, total=torch.zeros_like(x))
