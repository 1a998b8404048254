"""Push-DIGing, also called ADD-OPT; with noise S-ADDOPT. Gradient tracking with push-sum over directed graphs.

    U' = P (U - lr Y)
    w' = P w,   X' = U' / w'
    Y' = P Y + S' - S

P = W is column stochastic: a node need only know to how many it speaks. w starts at 1 and corrects the weight that an
unbalanced graph gives each node: sum(w) = n always, and mean(y) = mean(s).
Guarantee: linear on smooth strongly convex functions with exact gradients, also where P changes (Nedic et al., 2017),
and to a neighbourhood of the size of the noise otherwise (Qureshi et al., 2021). Exact with a constant
step. With a doubly stochastic W it is DSGT. The message P Y travels during back-propagation.
Nedic, Olshevsky and Shi, Achieving geometric convergence for distributed optimization over time-varying graphs, 2017;
Qureshi, Xin, Kar and Khan, S-ADDOPT: decentralized stochastic first-order optimization over directed graphs, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Eigenvalues, Mix, Needs, Pending, Polynomial


class State(NamedTuple):
    x: Tensor
    u: Tensor
    w: Tensor
    g: Tensor
    Py: Pending


@dataclass(frozen=True)
class PushDIGing(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(rows=False)
    sends: ClassVar[int] = 2  # and one number, in the same message
    keeps_x: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("Py", "g")

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, u=x, w=torch.ones_like(x[..., :1]), g=zero, Py=Done(zero))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = g + (s.Py.wait() - s.g)
        u, w = mix.together(s.u - lr * y, s.w)
        return State(u / w, u, w, g, Py=mix.start(y))

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        return 1, -(2 - c) * w, w**2 - c * w  # for a doubly stochastic W
