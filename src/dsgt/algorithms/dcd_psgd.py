"""DCD-PSGD: D-PSGD whose models move by compressed differences, so that everyone knows its neighbours' models exactly.

    X' = X + C(W X - lr S - X)

(W - I) X is kept as the sum F of the flows. Its first message is the model in full. C = identity is D-PSGD.
Guarantee: O(1/sqrt(n K)) with noise for an unbiased C with E|C(z) - z|^2 <= a^2 |z|^2 and a small a, below
(1 - rho) / (2 max |1 - lambda_i|) (Tang et al., 2018); measured it bears a up to about 1 and diverges above. O(lr)
beside the optimum when the nodes' data differ.
Tang, Gan, Zhang, Zhang and Liu, Communication compression for decentralized training, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.compression import Compressed, Compressor, Quantise
from dsgt.core import Mix, Needs, Pending, parameter


class State(NamedTuple):
    x: Tensor
    F: Tensor
    q: Pending  # the flow of the last move


@dataclass(frozen=True)
class DCDPSGD(Compressed[State]):
    compress: Compressor = parameter(Quantise(8), "what of a move is made and sent")

    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    needs_unbiased: ClassVar[bool] = True
    sends: ClassVar[int] = 1
    keeps_x: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    diverges: ClassVar[str] = "it bears compressors whose error is smaller than the vector: take more bits, or CHOCO"

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x, F=torch.zeros_like(x), q=mix.start_flow(x))

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        F = s.F + s.q.wait()
        q = self.compress(F - lr * g, mix)
        return State(s.x + q.value, F, mix.start_flow(q))
