"""MSPD, multi-step primal-dual: for convex functions with kinks; M local subgradient steps for one gossip.

    Z = t/(t + 2) Z - 2/(t + 2) (lr (S - Y) - X),   for t = 0 ... M - 1, from Z = X on; then X' = Z
    Y' = Y - (I - P(W)) (2 X' - X) / (lr high)

S are subgradients of all samples of a node at Z; P is the polynomial of K rounds of ``networks.chebyshev``, and
high = 1 + what it leaves of a disagreement. lr is the paper's eta / n, and Y n times the paper's. sum(y) = 0 always.
What it promises is the mean of all X so far, which is the model of a run: ``Algorithm.model``. Needs equal starts.
Guarantee: with lr = (R / l) sqrt(low / high), where |x*| <= R and all |s| <= l, a loss within eps of the lowest after
O(R l / eps) gossips whatever the network and O((R l / eps)^2) subgradients, which no method can beat (Scaman et al.,
2018). With a constant M it stops at a distance that falls with M where the functions have kinks. W must be symmetric.
Scaman, Bach, Bubeck, Lee and Massoulie, Optimal algorithms for non-smooth distributed optimization in networks, 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.algorithms.sliding import Sliding
from dsgt.core import Mix, Network, parameter


class State(NamedTuple):
    x: Tensor
    centre: Tensor
    y: Tensor
    mean: Tensor


@dataclass(frozen=True)
class MSPD(Sliding[State]):
    M: int = parameter(20, "local steps for one gossip", least=1)
    K: int = parameter(4, "rounds of gossip; 0: as published, by the network", least=0)

    zero_sum: ClassVar[str] = "y"

    @property
    def sends(self) -> float:  # type: ignore[override]
        return (self.K or math.nan) / self.M  # K by the network is known when that is

    def over(self, network: Network) -> Network:
        from dsgt.gossip import chebyshev  # here: who lists methods waits for no graphs

        return chebyshev(network, self.K or None)

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, centre=x, y=torch.zeros_like(x), mean=x)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        phase, t = divmod(mix.k, self.M)
        z = t / (t + 2) * s.x - 2 / (t + 2) * (lr * (g - s.y) - s.centre)
        if t + 1 < self.M:
            return s._replace(x=z)
        y = s.y + mix.flow(2 * z - s.centre) / (lr * self.high)
        return State(z, centre=z, y=y, mean=s.mean + (z - s.mean) / (phase + 1))
