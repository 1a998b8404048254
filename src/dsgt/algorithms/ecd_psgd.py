"""ECD-PSGD: D-PSGD with estimates T of the models, whose errors extrapolation makes smaller from round to round.

    X' = W T - lr S
    Z' = (1 - t/2) X + (t/2) X',   T' = (1 - 2/t) T + (2/t) C(Z'),   t = 1, 2, ...

(W - I) T is kept as F. Its first message is the model in full. C = identity is D-PSGD.
Guarantee: O(1/sqrt(n K)) with noise for an unbiased C of bounded variance (Tang et al., 2018). With a
variance that grows with the vector, as quantising has, t/2 times a step's length must not grow: take 8 bits and a
falling lr. O(lr) beside the optimum when the nodes' data differ.
Tang, Gan, Zhang, Zhang and Liu, Communication compression for decentralized training, 2018.
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
    T: Tensor
    F: Tensor
    t: Tensor  # rounds since it was begun, (..., 1): after a restart not those of the run


@dataclass(frozen=True)
class ECDPSGD(Compressed[State]):
    compress: Compressor = parameter(Quantise(8), "what of an extrapolated model is sent")

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    needs_unbiased: ClassVar[bool] = True
    sends: ClassVar[int] = 1
    keeps_x: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    diverges: ClassVar[str] = "what it sends grows with the rounds: take more bits, a falling lr, or CHOCO"

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, x, mix.flow(x), t=torch.zeros_like(x[..., :1]))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        x, t = s.T + s.F - lr * g, s.t + 1
        q = self.compress(s.x + t / 2 * (x - s.x), mix)
        return State(x, s.T + 2 / t * (q.value - s.T), s.F + 2 / t * (mix.flow(q) - s.F), t)
