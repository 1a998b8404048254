"""ASY-SONATA: gradient tracking in which nobody waits, over links that lose, delay and reorder.

    z+ = z + taken + g - g_old
    z  = P z+,  the rest is given to the neighbours
    x  = A (x - lr z)

The rows of A sum to 1 and the columns of P: ``topologies.TwoMatrices``, or one doubly stochastic W. What is taken are
differences of running totals (the paper's rho), so sum(z) + what is under way = sum(g) at every moment.
With equal clocks and no delays it is Push-Pull whose messages take a round and whose step uses the part of z that a
node keeps, P[i, i] z: its best learning rate is about 1 / P[i, i] times that of DSGT.
Guarantee: linear on smooth strongly convex functions with exact gradients, bounded delays and a small step; exact with
a constant step, whatever the speeds of the nodes (Tian et al., 2020, Theorem 5).
Tian, Sun and Scutari, Achieving linear convergence in distributed asynchronous multiagent optimization, 2020.
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
    z: Tensor


@dataclass(frozen=True)
class AsySONATA(AsyncAlgorithm[State]):
    needs: ClassVar[Needs] = Needs(columns=False, static=True, push=Needs(rows=False, static=True))
    sends: ClassVar[int] = 2
    exact: ClassVar[bool] = True

    def init(self, x: Tensor) -> State:
        zero = torch.zeros_like(x)
        return State(x, g=zero, z=zero)

    def wake(self, s: State, g: Tensor, mail: Mail, lr: Rate) -> State:
        z = mail.push(s.z + mail.take() + (g - s.g))
        x = mail.pull(s.x - lr(mail.k) * z)
        return State(x, g, z)

    def rest(self, s: State, mail: Mail) -> State:
        return s._replace(z=s.z + mail.take())

    def held(self, s: State) -> Tensor:
        return s.z
