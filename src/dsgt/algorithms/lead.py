"""LEAD: Exact Diffusion with one compressed message a round, and its dual D in units of a gradient.

    Y = X - lr (S + D),   Q = C(Y - H)
    D' = D - gamma / (2 lr) (W - I) (H + Q)
    X' = X - lr (S + D'),   H' = H + alpha Q

H is the copy that all neighbours know; (W - I) H is kept as the sum F of the flows. It begins with H = X, told once in
full. C = identity and gamma = 1 is Exact Diffusion at a constant lr; after a change of lr D stays right.
sum(D) = 0 always. Guarantee: linear on strongly convex functions with exact gradients for any unbiased C, if alpha and
gamma are small enough for its error (Liu et al., 2021): 4 bits bear gamma = 1, 2 bits 0.2 (docs/compression.md).
Liu, Li, Wang, Tang and Yan, Linear convergent decentralized optimization with compression, 2021.
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
    D: Tensor
    h: Tensor
    F: Tensor


@dataclass(frozen=True)
class LEAD(Compressed[State]):
    compress: Compressor = parameter(Quantise(4), "what of a vector is sent")
    gamma: float = parameter(0.5, "how far the dual follows the neighbours' differences", above=0, most=1)
    alpha: float = parameter(0.5, "the part of a message by which copies are corrected", above=0, most=1)

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    needs_unbiased: ClassVar[bool] = True
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = True
    zero_sum: ClassVar[str] = "D"
    divides_by_lr: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, D=torch.zeros_like(x), h=x, F=mix.flow(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        q = self.compress(s.x - lr * (g + s.D) - s.h, mix)
        F = mix.flow(q)
        D = s.D - self.gamma / (2 * lr) * (s.F + F)
        return State(s.x - lr * (g + D), D, s.h + self.alpha * q.value, s.F + self.alpha * F)
