"""ESDACD, edge-synchronous dual accelerated coordinate descent: in every round one edge and the two nodes at its ends.

    V' = (1 - rho) V + rho Y + F,   F_i = -F_j = -lr rho / (sigma p_e) (grad f_i*(y_i) - grad f_j*(y_j))
    Y' = (Y + (rho R_e / p_e) F + rho V') / (1 + rho)

The edge e = {i, j} has probability p_e; ``topologies.drawn_edges`` knows p_e, its resistance R_e, sigma and rho.
grad f_i*(u) is the x at which grad f_i(x) = u. V = Y = 0 at first, sum(v) = 0 always, lr = 1 is the published step.
Guarantee: linear for smooth, strongly convex f_i, by 1 - rho a round in the mean (Hendrikx et al., 2019).
Hendrikx, Bach and Massoulie, Accelerated decentralized optimization with local updates for smooth and strongly convex
objectives, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, zeros_like

from dsgt.core import Algorithm, Local, Mix, Network, Oracle, parameter
from dsgt.oracles.drawn_conjugate import DrawnConjugate


class State(NamedTuple):
    x: Tensor
    y: Tensor
    v: Tensor


@dataclass(frozen=True)
class ESDACD(Algorithm[State]):
    seed: int = parameter(0, "of the draws")

    sends, exact, published_lr = 1, True, 1.0
    zero_sum: ClassVar[str | None] = "v"
    asks: ClassVar[Oracle[Any]] = DrawnConjugate()
    edges: ClassVar[Any] = None

    def over(self, network: Network) -> Network:
        from dsgt.topologies.drawn_edges import pairs_of  # here: who lists methods waits for no graphs

        return network.over(self.edges.pairs if self.edges else pairs_of(network, self.seed))

    def fitted(self, network: Network, f: Local) -> ESDACD:
        from dsgt.topologies.drawn_edges import DrawnEdges

        edges = DrawnEdges.of(network, f, self.seed)
        return self.knowing(edges=edges, asks=DrawnConjugate(edges.pairs.ends))

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, y=zeros_like(x), v=zeros_like(x))

    def point(self, s: State) -> Tensor:
        return s.y

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        rho, step, ratio = self.edges.at(mix.k)
        F = lr * step * mix.flow(g)
        v = (1 - rho) * s.v + rho * s.y + F
        return State(g, y=(s.y + ratio * F + rho * v) / (1 + rho), v=v)
