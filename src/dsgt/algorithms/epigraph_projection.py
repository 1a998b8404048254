"""Constrained optimisation over directed links, by projection in the epigraph: W need only be row stochastic.

    minimise t_1 + ... + t_n over (x, t) with f_i(x) <= t_i, and x in the sets C_i that node i alone knows

    P = W Z - lr (0, 1/n)                        Z_i = (X_i, T_i): a model, and a guess of the values of all nodes
    P_i += beta (projection onto C_i - P_i)      one of node i's sets, drawn at random
    Z_i' = P_i - beta v w / |w|^2                v = f_i(P_i) - T_ii where that is above 0, w = (S_i, -e_i)

The sum of the t is the same function at all nodes, so it does not matter that W weighs some nodes more: D-PSGD with
such weights goes to a weighted optimum, this to the true one. State.x is the model of P, where f_i and S_i are asked.
Guarantee: for convex f_i, strongly connected links and lr with sum lr = inf and sum lr^2 < inf, such as k^-0.7, every
node converges to one solution (Xie et al., 2018); slowly. A constant step stops beside it. Exact gradients only.
``problems.constrained`` makes it for a problem. A message has m + n numbers.
Xie, You, Tempo, Song and Wu, Distributed convex optimization with inequality constraints over time-varying unbalanced
digraphs, 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.constraints import ConvexSet, drawn, node_by_node
from dsgt.core import Algorithm, Mix, Needs, parameter


class State(NamedTuple):
    x: Tensor
    t: Tensor


@dataclass(frozen=True)
class EpigraphProjection(Algorithm[State]):
    value: Callable[[int, Tensor], Tensor] = field(metadata={"meaning": "value(i, x) is f_i at (m,)", "own": True})
    sets: Sequence[Sequence[ConvexSet]] = field(metadata={"meaning": "for every node those that it knows", "own": True})
    beta: float = parameter(1.0, "how far to go towards a set: 1 onto it, 2 to its mirror image", above=0, below=2)
    seed: int = parameter(0, "which of its sets a node looks at in a round")

    needs: ClassVar[Needs] = Needs(columns=False)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False
    keeps_x: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, x.new_zeros(*x.shape[:-1], mix.nodes))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        mine = (mix.rows.to(g.device) == torch.arange(mix.nodes, device=g.device)).to(g.dtype)
        v = node_by_node(self.value, s.x, mix.rows)[..., None] - (s.t * mine).sum(dim=-1, keepdim=True)
        step = self.beta * v.clamp(min=0) / ((g * g).sum(dim=-1, keepdim=True) + 1)
        x, t = mix.together(s.x - step * g, s.t + step * mine)
        return State(x + self.beta * (self._projected(x, mix) - x), t - lr / mix.nodes)

    def _projected(self, x: Tensor, mix: Mix) -> Tensor:
        return node_by_node(lambda i, row: drawn(self.sets[i], self.seed, i, mix.k).project(row), x, mix.rows)
