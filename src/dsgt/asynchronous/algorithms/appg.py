"""APPG, asynchronous push-pull gradient: models are pulled, trackers pushed, and nobody waits.

    y = P (y + g - g_old) + taken
    x = A x - lr y

The rows of A sum to 1 and the columns of P: ``topologies.TwoMatrices``, or one doubly stochastic W. In the paper a lost
message loses a piece of y for ever; here running totals travel, so sum(y) + what is under way = sum(g) at every moment
also over links that lose and reorder. ASY-SONATA mixes the step, APPG does not; with equal clocks and no delays it is
X' = A X - lr Y, Y' = P (Y + S' - S), where what a neighbour sends takes a round.
Guarantee: linear under the Polyak-Lojasiewicz inequality with exact gradients, bounded delays and a small step; exact
with a constant step, whatever the speeds of the nodes (Zhang and You, 2019).
Zhang and You, Fully asynchronous distributed optimization with linear convergence in directed networks, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.asynchronous.core import AsyncAlgorithm, Rate
from dsgt.asynchronous.mail import Mail
from dsgt.core import Needs


class State(NamedTuple):
    x: Tensor
    g: Tensor
    y: Tensor


@dataclass(frozen=True)
class APPG(AsyncAlgorithm[State]):
    needs: ClassVar[Needs] = Needs(columns=False, static=True, push=Needs(rows=False, static=True))
    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True

    def init(self, x: Tensor) -> State:
        zero = torch.zeros_like(x)
        return State(x, g=zero, y=zero)

    def wake(self, s: State, g: Tensor, mail: Mail, lr: Rate) -> State:
        y = mail.push(s.y + (g - s.g)) + mail.take()
        x = mail.pull(s.x) - lr(mail.k) * y
        return State(x, g, y)

    def rest(self, s: State, mail: Mail) -> State:
        return s._replace(y=s.y + mail.take())

    def held(self, s: State) -> Tensor:
        return s.y
