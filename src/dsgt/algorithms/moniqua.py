"""Moniqua: D-PSGD whose receivers decode with their own models; nobody keeps copies.

    Q_i = X_i / B rounded at random to 2^bits parts of 1, modulo 1;   B = 2 theta / (1 - 2^(1 - bits))
    X_j as i reads it = the number nearest to X_i among those that Q_j may mean
    X_i' = X_i + sum_j W[i, j] (X_j as i reads it - X_i as it reads itself) - lr S_i

Right while neighbours' coordinates differ by less than theta. A sum of what Q leaves out travels too: who reads another
sum than was sent has a theta too small; its model becomes NaN, which ends the run.
Guarantee: O(1/sqrt(n K)) with noise, as D-PSGD (Lu and De Sa, 2020); O(lr) beside the optimum.
Lu and De Sa, Moniqua: modulo quantized communication in decentralized SGD, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.compression.modulo import Modulo
from dsgt.core import Algorithm, Mix, Needs, parameter


class State(NamedTuple):
    x: Tensor


@dataclass(frozen=True)
class Moniqua(Algorithm[State]):
    theta: float = parameter(1.0, "the largest difference of two neighbours' coordinates", above=0)
    bits: int = parameter(8, "of every number: 2, 4 or 8", least=2, most=8)
    seed: int = parameter(0, "of the random rounding")

    needs: ClassVar[Needs] = Needs(symmetric=True)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False
    equal_starts: ClassVar[bool] = True
    diverges: ClassVar[str] = "two neighbours' models differ by more than theta: take a larger one, or a smaller lr"

    def __post_init__(self) -> None:
        super().__post_init__()
        Modulo(self.theta, self.bits)  # refuses other bits

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        modulo, x = Modulo(self.theta, self.bits), s.x.unsqueeze(-2)
        wire = modulo.pack(s.x, mix.k, self.seed).unsqueeze(-2)
        heard, right = modulo.read(mix.exchange(wire), x)
        told, _ = modulo.read(wire, x)
        wrong = (~right & (mix.hears >= 0).unsqueeze(-1).to(x.device)).any(dim=-2)
        moved = s.x + (mix.weights.to(x) * (heard - told)).sum(dim=-2) - lr * g
        return State(moved.masked_fill(wrong, torch.nan))

    def message_bytes(self, m: int, element: int = 4) -> float:
        return Modulo(self.theta, self.bits).bytes(m)
