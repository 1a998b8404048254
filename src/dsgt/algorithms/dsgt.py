"""DSGT, decentralized stochastic gradient tracking: the method of the paper.

    X' = W (X - lr Y)
    Y' = W Y + S' - S

y tracks the global gradient: mean(y) = mean(s) after every round.
Guarantee: Theorem 1, O(1/K) with exact gradients and O(1/sqrt(K)) with noise, whatever the nodes' data; W may be
directed and may change. Stable on quadratics iff lr L < min(2, (1 - lambda_n^2) / |lambda_n|), the second for
lambda_n < 0. The message W Y is needed only after the next gradient, so it travels during back-propagation.
Zhang and You, Decentralized stochastic gradient tracking for non-convex empirical risk minimization, 2020;
Pu and Nedic, Distributed stochastic gradient tracking methods, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Eigenvalues, Inner, Mix, Pending, Polynomial, parameter


class State(NamedTuple):
    x: Tensor
    g: Tensor
    Wy: Pending


@dataclass(frozen=True)
class DSGT(Algorithm[State]):
    inner: Inner | None = parameter(None, "an optimizer of torch's that moves x by y, in dsgt.Optimizer")
    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    uncoordinated: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("Wy", "g")
    arithmetic: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, g=zero, Wy=Done(zero))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = g + (s.Wy.wait() - s.g)
        x = mix(s.x - lr * y)
        return State(x, g, Wy=mix.start(y))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(2 - c) * w, w**2 - c * w
