"""ADFS, accelerated decentralized finite sums: ESDACD whose nodes are taken apart into one virtual node a part of data.

    V' = (1 - rho) V + rho Y + F,   Y' = (Y + (rho R / P) F + rho V') / (1 + rho),   X = Y / c
    an edge {i, j}:            F_i = -F_j = -lr rho / (sigma P) (y_i - y_j) / c
    a part u of node i, R = 1: F_i = -F_iu = (1 - rho) v_iu + rho y_iu - grad f_iu(x), by one resolvent of the part

f_i is (c/2) |x|^2, c the penalty l2, and a sum over its q parts. A round draws an edge, over which two nodes talk, or a
part, for which one node computes; ``oracles.virtual_nodes`` has the equation, how often each is drawn, and rho. It
begins with V = Y = 0, the sum of all v, virtual ones too, stays 0, and lr = 1 is the published step.
Guarantee: linear for smooth, convex losses and l2 > 0, by 1 - rho a round in the mean (Hendrikx et al., 2019).
Hendrikx, Bach and Massoulie, An accelerated decentralized stochastic proximal algorithm for finite sums, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dsgt.algorithms.esdacd import ESDACD, State
from dsgt.core import Local, Mix, Network, parameter
from dsgt.oracles.virtual_nodes import VirtualNodes


@dataclass(frozen=True)
class ADFS(ESDACD):
    q: int = parameter(10, "parts that every node's samples are cut into, each of which is a virtual node", least=1)
    limit: float = parameter(2.0, "gigabytes that the virtual nodes of the nodes here may take", above=0)

    zero_sum: ClassVar[str | None] = None  # virtual nodes hold the rest

    @property
    def asks(self) -> VirtualNodes:  # type: ignore[override]
        drawn = (self.edges.steps, self.edges.pairs.ends) if self.edges else ()
        return VirtualNodes(self.q, self.limit, *drawn)

    def fitted(self, network: Network, f: Local) -> ADFS:
        from dsgt.topologies.drawn_edges import DrawnParts  # here: who lists methods waits for no graphs

        return self.knowing(edges=DrawnParts.of(network, f, self.q, self.seed))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        rho, step, ratio = self.edges.at(mix.k)
        F = lr * step * mix.flow(g) if step else g
        v = (1 - rho) * s.v + rho * s.y + F
        y = (s.y + ratio * F + rho * v) / (1 + rho)
        return State(y / self.edges.c, y, v)
