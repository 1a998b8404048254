"""DSGT with Nesterov momentum: what torch.optim.SGD does with nesterov=True, fed with the tracker.

    Y' = W Y + S' - S
    U' = beta U + Y'
    X' = W (X - lr (Y' + beta U'))

The tracker stands in the place of the gradient, as section 2.2 of the paper suggests: DSGT with
inner=Inner(torch.optim.SGD, momentum=beta, nesterov=True) in dsgt.Optimizer is this method. beta = 0 is DSGT. The mean
model follows centralized SGD with Nesterov momentum.
Guarantee: none is published for this form, and none is claimed; it is this package's own. With exact gradients it
reaches the optimum with a constant step wherever it is stable, because y and u vanish only there.
The message W Y travels during back-propagation.
The tracker is that of Zhang and You, Decentralized stochastic gradient tracking for non-convex empirical risk
minimization, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Eigenvalues, Mix, Pending, Polynomial, parameter


class State(NamedTuple):
    x: Tensor
    u: Tensor
    g: Tensor
    Wy: Pending


@dataclass(frozen=True)
class DSGTNesterov(Algorithm[State]):
    beta: float = parameter(0.9, "momentum: the share of the last direction that is kept", least=0, below=1)

    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    uncoordinated: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("Wy", "g")
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, u=zero, g=zero, Wy=Done(zero))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = g + (s.Wy.wait() - s.g)
        u = self.beta * s.u + y
        x = mix(s.x - lr * (y + self.beta * u))
        return State(x, u, g, Wy=mix.start(y))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        b = self.beta
        return 1, (1 + b) * c * w - b - 2 * w, w**2 + 2 * b * w - (1 + 2 * b) * c * w, -b * w**2 + b * c * w
