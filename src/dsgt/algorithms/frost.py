"""FROST, also called Pull-Diag-GT: gradient tracking over a directed graph where only the rows of A = W sum to 1.

    X' = A X - lr Y
    Y' = A Y + R' - R,   R_i = S_i / (n V_ii)
    V' = A V,   V = I at first

A node need not know who hears it. Row i of V, n numbers that travel with x_i, comes to hold how much A listens to each
node, and dividing by its own entry makes up for it. Every node must give itself a positive weight. The paper, which
minimises the sum of the nodes' functions, has no n: lr here is n times that of the paper, and as large as in GNSD.
Guarantee: linear on smooth strongly convex functions with exact gradients, for a small step (Xin et al., 2019). Exact
with a constant step. Both messages travel during back-propagation.
Xin, Xi and Khan, FROST: fast row-stochastic optimization with uncoordinated step-sizes, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Mix, Needs, Pending


class State(NamedTuple):
    x: Tensor
    v: Tensor
    r: Tensor
    Axv: Pending
    Ay: Pending


@dataclass(frozen=True)
class FROST(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(columns=False)
    sends: ClassVar[int] = 2  # and n numbers, in the message of x
    exact: ClassVar[bool] = True
    keeps_x: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        v, zero = (mix.rows == torch.arange(mix.nodes, device=x.device)).to(x.dtype), torch.zeros_like(x)
        return State(x, v, r=zero, Axv=mix.start(torch.cat([x, v], dim=-1)), Ay=Done(zero))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        r = g / (mix.nodes * s.v.gather(-1, mix.rows))
        y = r + (s.Ay.wait() - s.r)
        Ax, v = s.Axv.wait().split([g.shape[-1], mix.nodes], dim=-1)
        x = Ax - lr * y
        return State(x, v, r, Axv=mix.start(torch.cat([x, v], dim=-1)), Ay=mix.start(y))
