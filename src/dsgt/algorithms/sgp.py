"""SGP, stochastic gradient push: push-sum over directed graphs, with P = W column stochastic.

    U' = P (U - lr S(X))
    w' = P w
    X' = U' / w'

w starts at 1 and corrects the weight that an unbalanced graph gives each node; it must travel with its u, in one
message. sum(w) = n always.
Guarantee: O(1/sqrt(n K)) with noise (Assran et al., 2019, Theorem 1); a constant step leaves an O(lr) distance when
the nodes' data differ. With a doubly stochastic W it is D-PSGD, adapt then combine.
Assran, Loizou, Ballas and Rabbat, Stochastic gradient push for distributed deep learning, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Eigenvalues, Mix, Needs, Polynomial


class State(NamedTuple):
    x: Tensor
    u: Tensor
    w: Tensor


@dataclass(frozen=True)
class SGP(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(rows=False)
    sends: ClassVar[int] = 1  # and one number, in the same message
    keeps_x: ClassVar[bool] = True
    exact: ClassVar[bool] = False

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, u=x, w=torch.ones_like(x[..., :1]))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        u, w = mix.together(s.u - lr * g, s.w)
        return State(u / w, u, w)

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(1 - c) * w  # for a doubly stochastic W
