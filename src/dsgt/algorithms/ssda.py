"""SSDA, single-step dual accelerated: Nesterov's method on the dual problem, whose gradient is one mixing.

    X = grad f*(U),   that is, the x at which grad f_i(x) = u
    Y' = U - lr (mu / high) (I - W) X
    U' = Y' + beta (Y' - Y),   beta = (sqrt(kappa) - 1) / (sqrt(kappa) + 1),   kappa = (L high) / (mu low)

mu is how strongly convex the f_i are at least, L how curved at most, and the eigenvalues of I - W lie from low to high:
all are taken from problem and network. sum(u) = 0 always. lr = 1 is the published step; above 4/3 it may diverge.
Guarantee: linear for smooth, strongly convex f_i with lr = 1, in O(sqrt(kappa) log(1/eps)) rounds, for symmetric W.
Scaman et al., Optimal algorithms for smooth and strongly convex distributed optimization in networks, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from dsgt.core import Algorithm, Local, Mix, Needs, Network, Oracle, parameter
from dsgt.oracles.conjugate import Conjugate, curvature


class State(NamedTuple):
    x: Tensor
    u: Tensor
    y: Tensor


@dataclass(frozen=True)
class SSDA(Algorithm[State]):
    mu: float = parameter(0.0, "how strongly convex the nodes' functions are; 0: the problem is asked", least=0)
    L: float = parameter(0.0, "how curved they are at most; 0: the problem is asked", least=0)
    low: float = parameter(0.0, "of the nonzero eigenvalues of I - W the lowest; 0: computed", least=0)
    high: float = parameter(0.0, "and the highest; 0: computed", least=0)

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    sends: ClassVar[float] = 1
    exact, published_lr = True, 1.0
    asks: ClassVar[Oracle[Any]] = Conjugate()
    zero_sum: ClassVar[str] = "u"

    def fitted(self, network: Network, f: Local) -> Self:
        from dsgt.gossip import eigenvalue_range  # here: who lists methods waits for no graphs

        mu, L = curvature(type(self).__name__, network, f, L=self.L)
        low, high = eigenvalue_range(network)
        return replace(self, mu=self.mu or mu, L=L, low=self.low or low, high=self.high or high)

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, u=torch.zeros_like(x), y=torch.zeros_like(x))

    def point(self, s: State) -> Tensor:
        return s.u

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        root = (self.L * self.high / (self.mu * self.low)) ** 0.5
        y = s.u + lr * self.mu / self.high * mix.flow(g)
        return State(g, u=y + (root - 1) / (root + 1) * (y - s.y), y=y)
