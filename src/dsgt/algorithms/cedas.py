"""CEDAS: Exact Diffusion with one compressed message a round, and its dual d in units of lr times a gradient.

    Y = X - lr S - d,   Q = C(Y - H)
    F = (gamma / 2) (W - I) (H + Q)
    X' = Y + F,   d' = d - F,   H' = H + alpha Q

H is the copy that all neighbours know; (W - I) H is kept as a sum of flows. It begins with H = X, told once in full.
C = identity and gamma = 1 is Exact Diffusion. A change of lr throws d off until it has found its length again: under a
schedule use LEAD.
sum(d) = 0 always. Guarantee: with noise and a falling lr the rate of centralized SGD, O(1/(n K)) on strongly convex
functions, for unbiased C if alpha and gamma are small enough for its error (Huang and Pu, 2023).
Huang and Pu, CEDAS: a compressed decentralized stochastic gradient method with improved convergence, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.compression import Compressed, Compressor, Quantise
from dsgt.core import Mix, Needs, parameter


class State(NamedTuple):
    x: Tensor
    d: Tensor
    h: Tensor
    F: Tensor


@dataclass(frozen=True)
class CEDAS(Compressed[State]):
    compress: Compressor = parameter(Quantise(4), "what of a vector is sent")
    gamma: float = parameter(0.5, "how far a node moves towards its neighbours' copies", above=0, most=1)
    alpha: float = parameter(0.5, "the part of a message by which copies are corrected", above=0, most=1)

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    needs_unbiased: ClassVar[bool] = True
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = True
    zero_sum: ClassVar[str] = "d"
    remembers_lr: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, d=torch.zeros_like(x), h=x, F=mix.flow(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        y = s.x - lr * g - s.d
        q = self.compress(y - s.h, mix)
        flow = mix.flow(q)
        F = self.gamma / 2 * (s.F + flow)
        return State(y + F, s.d - F, s.h + self.alpha * q.value, s.F + self.alpha * flow)
