"""AD-PSGD, asynchronous decentralized parallel SGD: a node averages with one random neighbour, and steps.

    i:  x += taken;  ask a neighbour j with x;  x -= lr g
    j:  x += d,  d = (x_i - x_j) / 2, and gives -d to i

In the paper both nodes hold still until they are averaged, so that the graph must be bipartite or they deadlock. Here
nobody waits: j moves half way at once, and i by as much when the answer comes; until then it asks nobody else. Where
nothing happens to i in between both have the mean of the two. sum(x) + what is under way is changed by gradient steps
only: a lost question is repeated, and a lost answer is in the next running total. On one node it is SGD.
Guarantee: O(1/sqrt(K)) for a step that suits K (Lian et al., 2018, Theorem 1); a constant step leaves a distance that
falls with lr, to the minimum of sum_i rate_i f_i, rate_i the wakes of node i a second.
Lian, Zhang, Zhang and Liu, Asynchronous decentralized parallel stochastic gradient descent, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from dsgt.asynchronous.core import AsyncAlgorithm, Rate
from dsgt.asynchronous.mail import Mail
from dsgt.core import Needs


class State(NamedTuple):
    x: Tensor


@dataclass(frozen=True)
class ADPSGD(AsyncAlgorithm[State]):
    needs: ClassVar[Needs] = Needs(symmetric=True, static=True)
    sends: ClassVar[float] = 1  # and one answered, to one neighbour each
    exact: ClassVar[bool] = False

    def init(self, x: Tensor) -> State:
        return State(x)

    def wake(self, s: State, g: Tensor, mail: Mail, lr: Rate) -> State:
        x = s.x + mail.take()
        mail.ask(x)
        return State(x - lr(mail.k) * g)

    def answer(self, s: State, j: int, v: Tensor, mail: Mail) -> State:
        d = (v - s.x) / 2
        mail.give(j, -d)
        return State(s.x + d)

    def rest(self, s: State, mail: Mail) -> State:
        return State(s.x + mail.take())

    def held(self, s: State) -> Tensor:
        return s.x
