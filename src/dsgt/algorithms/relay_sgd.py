"""RelaySGD: on a tree, nodes pass on sums, so that every model counts the same at every node, only later.

    Z = X - lr S
    M[i to j]' = Z_i + sum of M[l to i] over the neighbours l of i but j,  N[i to j]' likewise with 1 for Z_i
    X_i' = (Z_i + sum_j M[j to i]' + (n - 1 - sum_j N[j to i]') X_i at the start) / n

What a node hears from a neighbour is the sum of all models behind that neighbour, each as old as it is far away; N
counts them, and the start stands for those that have not arrived. W says who hears whom; its weights are not used.
Guarantee: O(sigma / sqrt(n K)) for non-convex functions, whatever the nodes' data (Vogels et al., 2021); with a
constant step and exact gradients it reaches the optimum. A lost message is forgotten after as many rounds as the tree
is wide.
Vogels, He, Koloskova, Lin, Karimireddy, Stich and Jaggi, RelaySum for decentralized deep learning on heterogeneous
data, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Mix, Needs


class State(NamedTuple):
    x: Tensor
    start: Tensor
    heard: Tensor
    """What each neighbour last said, (..., d, m + 1): the sum, and of how many."""


@dataclass(frozen=True)
class RelaySGD(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(columns=False, static=True, graph="tree")
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = True
    keeps_x: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, x, x.new_zeros(*mix.hears.shape, x.shape[-1] + 1))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        z = torch.cat([s.x - lr * g, torch.ones_like(s.x[..., :1])], dim=-1).unsqueeze(-2)
        heard = mix.exchange(z + s.heard.sum(dim=-2, keepdim=True) - s.heard)
        total, count = (z + heard.sum(dim=-2, keepdim=True)).squeeze(-2).split([s.x.shape[-1], 1], dim=-1)
        return State((total + (mix.nodes - count) * s.start) / mix.nodes, s.start, heard)
