"""LED, local exact diffusion: K local steps between two mixings, and one vector in a mixing.

    X' = X - lr S - (beta / K) Y,   in K rounds; then
    F = (W - I) X',   X' = X' + F,   Y' = Y - F

sum(y) = 0 always, so the mean model follows centralized SGD. K = 1 and beta = 1 is D²; with (I + W)/2 for W,
Exact Diffusion. The paper's beta is beta / K here.
Guarantee: O(1 / sqrt(n K R)) after R mixings with noise, whatever the nodes' data, for symmetric W and a small step
(Alghunaim, 2024). Exact with a constant step. Where lambda_n < (beta - 2) / (beta + 2), a small step diverges.
Alghunaim, Local exact-diffusion for decentralized optimization and learning, 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Mix, Needs, parameter


class State(NamedTuple):
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class LED(Algorithm[State]):
    K: int = parameter(4, "local steps between two mixings", least=1)
    beta: float = parameter(1.0, "the part of Y that a phase takes off", above=0, most=2)

    exact: ClassVar[bool] = True
    zero_sum: ClassVar[str] = "y"

    @property
    def needs(self) -> Needs:  # type: ignore[override]  # the floor depends on the parameters
        return Needs(symmetric=True, floor=(self.beta - 2) / (self.beta + 2), static=True)

    @property
    def sends(self) -> float:  # type: ignore[override]
        return 1 / self.K

    @property
    def phase(self) -> int:  # type: ignore[override]
        return self.K

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, y=torch.zeros_like(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        z = s.x - lr * g - self.beta / self.K * s.y
        if (mix.k + 1) % self.K:
            return State(z, s.y)
        F = mix.flow(z)
        return State(z + F, s.y - F)
