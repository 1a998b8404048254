"""C-GT: compressed gradient tracking whose copies follow slowly, for compressors that may make an error larger.

    X' = X + gamma (W - I) (H + Q) - lr V,   H' = H + alpha Q,   Q = C(X - H)
    V' = V + gamma (W - I) (G + P) + S' - S, G' = G + alpha P,   P = C(V - G)

It begins with H = X, told once in full. alpha = 1 is BEER; C = identity and gamma = 1 is GNSD, for any alpha.
Guarantee: linear on strongly convex functions with exact gradients, for unbiased compressors of any relative error and
for contractions, if alpha, gamma and lr are small enough (Liao et al., 2022): 2 bits want alpha = 0.1.
Liao, Li, Huang and Pu, A compressed gradient tracking method for decentralized optimization with linear convergence,
2022.
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
    q: Pending  # the flow of Q
    c: Tensor  # the copies G
    Fc: Tensor
    p: Pending


@dataclass(frozen=True)
class CGT(Compressed[State]):
    gamma: float = parameter(0.1, "how far a node moves towards its neighbours' copies", above=0, most=1)
    alpha: float = parameter(0.5, "the part of a message by which copies are corrected", above=0, most=1)

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True
    tracker: ClassVar[tuple[str, str]] = ("v", "g")

    def init(self, x: Tensor, mix: Mix) -> State:
        zero = torch.zeros_like(x)
        return State(x, zero, zero, h=x, Fh=mix.flow(x), q=Done(zero), c=zero, Fc=zero, p=Done(zero))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        q, p, a = s.q.wait(), s.p.wait(), self.alpha
        v = g + (s.v - s.g) + self.gamma * (s.Fc + p)
        x = s.x + self.gamma * (s.Fh + q) - lr * v
        Q, P = self.compress(x - s.h, mix, 0), self.compress(v - s.c, mix, 1)
        h, c, Fh, Fc = s.h + a * Q.value, s.c + a * P.value, s.Fh + a * q, s.Fc + a * p
        return State(x, v, g, h, Fh, mix.start_flow(Q), c, Fc, mix.start_flow(P))
