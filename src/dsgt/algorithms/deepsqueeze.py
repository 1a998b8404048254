"""DeepSqueeze: D-PSGD with compressed models; what a compressor left out is added to the next message.

    Z = X - lr S,   U = Z + E
    X' = Z + gamma (W - I) C(U),   E' = U - C(U)

No copies of neighbours are kept, so W may change from round to round. C = identity and gamma = 1 is adapt-then-combine
D-PSGD.
Guarantee: O(1/sqrt(n K)) with noise for any contraction C, if gamma is small enough (Tang et al., 2019). A
constant step stops beside the optimum by O(lr) and by what of the models themselves is left out: see CHOCO for less.
So it wants a compressor that keeps something of every number; with top-k of 1 % it hardly learns.
Tang, Lian, Qiu, Yuan, Zhang, Zhang and Liu, DeepSqueeze: decentralization meets error-compensated compression, 2019.
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
    e: Tensor


@dataclass(frozen=True)
class DeepSqueeze(Compressed[State]):
    compress: Compressor = parameter(Quantise(4), "what of a model is sent")
    gamma: float = parameter(0.5, "how far a node moves towards what its neighbours sent", above=0, most=1)

    needs: ClassVar[Needs] = Needs(symmetric=True)
    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, e=torch.zeros_like(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        z = s.x - lr * g
        q = self.compress(z + s.e, mix)
        return State(z + self.gamma * mix.flow(q), z + s.e - q.value)
