"""ClippedGossip: no neighbour, honest or not, pulls a node further than tau times its weight in a round.

    Z = X - lr S
    X_i' = Z_i + sum_j W[i, j] clip(Z_j - Z_i),  clip(d) = d min(1, tau / |d|)

tau = inf is adapt-then-combine D-PSGD. Both ends of an edge clip alike, so among honest nodes the mean moves as SGD's.
A message that is no finite number is not heard.
Guarantee: with a tau near the distance of honest nodes and few liars around each node, the honest nodes come as close
to a stationary point as the liars' weight times the nodes' differences allows (He, Karimireddy and Jaggi, 2022); a
fixed tau bounds what a liar does, w tau a round, and does not remove it.
He, Karimireddy and Jaggi, Byzantine-robust decentralized learning via ClippedGossip, 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Mix, Needs, parameter


class State(NamedTuple):
    x: Tensor


@dataclass(frozen=True)
class ClippedGossip(Algorithm[State]):
    tau: float = parameter(1.0, "the length to which a neighbour's difference is cut", above=0)

    needs: ClassVar[Needs] = Needs(symmetric=True)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        z = (s.x - lr * g).unsqueeze(-2)
        heard = mix.exchange(z)
        d = (heard - z).masked_fill(~heard.isfinite().all(dim=-1, keepdim=True), 0.0)
        share = (self.tau / torch.linalg.vector_norm(d, dim=-1, keepdim=True)).clamp(max=1.0)
        return State((z + (mix.weights.to(z) * share * d).sum(dim=-2, keepdim=True)).squeeze(-2))
