"""BEER: DSGT's gradient tracking with compressed messages, whose errors are fed back.

    V = V + gamma (W - I) G + S - S_before,    G' = G + C(V - G)
    X' = X + gamma (W - I) H - lr V,           H' = H + C(X' - H)

H and G are the copies of models and trackers that all neighbours know; (W - I) H and (W - I) G are kept as sums of
flows, which do not drift. Both messages travel while the next gradient is computed. It begins with H = X, told once in
full. C = identity and gamma = 1 is GNSD.
mean(v) = mean(s) always, whatever the compressor loses: so it is exact on different data.
Guarantee: O(1/K) for smooth functions with exact gradients, linear under the PL condition, for any contraction C and
any difference of the nodes' data, if gamma and lr are small enough (Zhao et al., 2022).
gamma falls with the share that is sent: about five times that of top-k, 0.5 with 4 bits (docs/compression.md). Two bits
are no contraction: take C-GT for them.
Zhao, Li, Li, Richtarik and Chi, BEER: fast O(1/T) rate for decentralized nonconvex optimization with communication
compression, 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.compression import Compressed
from dsgt.core import Done, Mix, Needs, Pending, parameter


class State(NamedTuple):
    x: Tensor
    v: Tensor
    g: Tensor
    h: Tensor
    Fh: Tensor
    q: Pending  # the flow of what H was corrected by
    c: Tensor  # the copies G
    Fc: Tensor
    p: Pending


@dataclass(frozen=True)
class BEER(Compressed[State]):
    gamma: float = parameter(0.05, "how far a node moves towards its neighbours' copies", above=0, most=1)

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("v", "g")

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, zero, zero, h=x, Fh=zero, q=mix.start_flow(x), c=zero, Fc=zero, p=Done(zero))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        Fh, Fc = s.Fh + s.q.wait(), s.Fc + s.p.wait()
        v = g + (s.v - s.g) + self.gamma * Fc
        x = s.x + self.gamma * Fh - lr * v
        q, p = self.compress(x - s.h, mix, 0), self.compress(v - s.c, mix, 1)
        return State(x, v, g, s.h + q.value, Fh, mix.start_flow(q), s.c + p.value, Fc, mix.start_flow(p))
