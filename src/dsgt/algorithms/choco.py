"""CHOCO-SGD: every node knows a copy H of every neighbour's model, and what is sent corrects the copies.

    Z = X - lr S
    H' = H + C(Z - H)
    X' = Z + gamma (W - I) H'

(W - I) H is kept as the sum F of the flows. It begins with H = X, told once in full. C = identity and gamma = 1 is
adapt-then-combine D-PSGD.
Guarantee: O(1/(n K)) on strongly convex functions for any contraction C, if gamma is small enough (Koloskova, Stich and
Jaggi, 2019). A constant step stops O(lr) beside the optimum when the nodes' data differ.
gamma falls with the share that is sent: about five times that of top-k, 0.5 with 4 bits (docs/compression.md).
Koloskova, Stich and Jaggi, Decentralized stochastic optimization and gossip with compressed communication, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from dsgt.compression import Compressed
from dsgt.core import Mix, Needs, parameter


class State(NamedTuple):
    x: Tensor
    h: Tensor
    F: Tensor


@dataclass(frozen=True)
class CHOCO(Compressed[State]):
    gamma: float = parameter(0.05, "how far a node moves towards its neighbours' copies", above=0, most=1)

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False
    zero_sum: ClassVar[str] = "F"

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, h=x, F=mix.flow(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        z = s.x - lr * g
        q = self.compress(z - s.h, mix)
        F = s.F + mix.flow(q)
        return State(z + self.gamma * F, s.h + q.value, F)
