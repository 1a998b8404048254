"""OSGP, overlap stochastic gradient push: SGP whose messages may take tau rounds, during which nobody waits.

    U' = diag(P) (U - lr S(X)) + what the neighbours sent tau rounds ago,   w' likewise,   X' = U' / w'

with P = W column stochastic. The sum of w over the nodes and the messages on their way is n always. tau = 0 is SGP.
Guarantee: O(1/sqrt(n K)) with noise, as for SGP, for bounded delays (Assran et al., 2019, Theorem 1); a constant step
leaves an O(lr) distance when the nodes' data differ.
Assran, Loizou, Ballas and Rabbat, Stochastic gradient push for distributed deep learning, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Algorithm, Done, Mix, Needs, Pending, parameter


class State(NamedTuple):
    x: Tensor
    u: Tensor
    w: Tensor
    heard: tuple[Pending, ...]  # on its way from the neighbours, the oldest first


@dataclass(frozen=True)
class OSGP(Algorithm[State]):
    tau: int = parameter(1, "rounds that a message may take", least=0)

    needs: ClassVar[Needs] = Needs(rows=False)
    sends: ClassVar[int] = 1  # and one number, in the same message
    keeps_x: ClassVar[bool] = True
    exact: ClassVar[bool] = False

    def init(self, x: Tensor, mix: Mix) -> State:
        one = torch.ones_like(x[..., :1])
        nothing = torch.zeros_like(torch.cat([x, one], dim=-1))
        return State(x, u=x, w=one, heard=(Done(nothing),) * self.tau)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        z = torch.cat([s.u - lr * g, s.w], dim=-1)
        kept = mix.own.to(z) * z
        first, *later = *s.heard, _Others(mix.start(z), kept)
        u, w = (kept + first.wait()).split([z.shape[-1] - 1, 1], dim=-1)
        return State(u / w, u, w, tuple(later))


@dataclass(frozen=True)
class _Others(Pending):
    mixing: Pending
    kept: Tensor  # what of the mixing is the node's own

    def wait(self) -> Tensor:
        return self.mixing.wait() - self.kept

    def peek(self) -> Tensor:
        return self.mixing.peek() - self.kept
