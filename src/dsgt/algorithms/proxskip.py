"""ProxSkip, in the form of SkipNIDS: a coin that all nodes share decides in every round whether they mix.

    Z = X - lr S - Y
    with probability p: F = a (W - I) Z,   X' = Z + F,   Y' = Y - p F;   else X' = Z

sum(y) = 0 always, so the mean model follows centralized SGD. p = 1 and a = 1/2 is Exact Diffusion.
Guarantee: linear on smooth strongly convex functions with exact gradients for lr < 2/L, and with p = O(sqrt(mu / L)) as
many mixings as an accelerated method needs; for symmetric W (Mishchenko et al., 2022; Guo et al., 2023). Exact with a
constant step. The coin is a function of the seed and the round, so no node asks another.
Mishchenko, Malinovsky, Stich and Richtarik, ProxSkip: yes! local gradient steps provably lead to communication
acceleration! finally!, 2022; Guo, Alghunaim, Yuan, Condat and Cao, Revisiting decentralized ProxSkip, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Mix, Needs, parameter
from dsgt.randomness import uniform


class State(NamedTuple):
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class ProxSkip(Algorithm[State]):
    p: float = parameter(0.2, "the probability of a mixing", above=0, most=1)
    a: float = parameter(0.5, "how far a mixing goes: by I - a (I - W)", above=0, most=0.5)
    seed: int = parameter(0, "of the coin")

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    exact: ClassVar[bool] = True
    zero_sum: ClassVar[str] = "y"

    @property
    def sends(self) -> float:  # type: ignore[override]  # in the mean
        return self.p

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, y=torch.zeros_like(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        z = s.x - lr * g - s.y
        if float(uniform(self.seed, mix.k)) >= self.p:
            return State(z, s.y)
        F = self.a * mix.flow(z)
        return State(z + F, s.y - self.p * F)
