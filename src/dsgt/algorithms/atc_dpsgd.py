"""D-PSGD, adapt then combine: the form that tolerates the learning rates of centralized SGD.

    X' = W (X - lr S)

Guarantee: the rate of D-PSGD, and the same O(lr) distance from the optimum when the nodes' data differ. Stable on
quadratics iff lr L < 2, as centralized gradient descent, whatever W. With W = 11'/n it is centralized SGD.
Its message waits for the gradient, so unlike the published form it cannot travel during back-propagation.
Chen and Sayed, Diffusion adaptation strategies for distributed optimization, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Needs, Polynomial


class State(NamedTuple):
    x: Tensor


@dataclass(frozen=True)
class AtcDPSGD(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(mean_columns=True)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        return State(mix(s.x - lr * g))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(1 - c) * w
