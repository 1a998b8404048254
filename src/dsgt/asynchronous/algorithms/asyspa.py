"""AsySPA: asynchronous subgradient-push whose steps make up for unequal speeds.

    u = P (u - step g) + taken,   step = lr(clock) + lr(clock + 1) + ... + lr(latest)
    w = P w + taken,   x = u / w,   clock = latest + 1

Neighbours tell each other their clocks, and latest is the highest that was heard (Lamport's clock): who wakes rarely
takes the steps that it has missed at once. sum(w) + what is under way = n at every moment. With equal clocks and no
delays it is OSGP with tau = 1, as AGP is, which takes lr(k) for the step.
Guarantee: the optimum of convex functions with bounded subgradients for lr(k) ~ 1/sqrt(k), if delays and the times
between wakes are bounded from both sides (Zhang and You, 2020); a constant step leaves a distance of O(lr).
Zhang and You, AsySPA: an exact asynchronous algorithm for convex optimization over digraphs, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.asynchronous.core import AsyncAlgorithm, Rate
from dsgt.asynchronous.mail import Mail
from dsgt.asynchronous.push_sum import is_light, joined, of_all_runs, push, quotient, take
from dsgt.core import Needs, parameter


class State(NamedTuple):
    x: Tensor
    u: Tensor
    w: Tensor
    clock: Tensor
    latest: Tensor


@dataclass(frozen=True)
class AsySPA(AsyncAlgorithm[State]):
    floor: float = parameter(0.1, "a node with less weight neither steps nor gives", above=0, below=1)

    needs: ClassVar[Needs] = Needs(rows=False, static=True)
    sends: ClassVar[int] = 1  # and two numbers
    exact: ClassVar[bool] = False

    def init(self, x: Tensor) -> State:
        w = torch.ones_like(x[..., :1])
        return State(x, u=x, w=w, clock=w - 1, latest=w - 1)

    def wake(self, s: State, g: Tensor, mail: Mail, lr: Rate) -> State:
        if is_light(s.w, self.floor):
            return self.rest(s, mail)._replace(latest=mail.highest(s.latest))  # the step is made up for later
        step = sum(lr(t) for t in range(int(of_all_runs(s.clock)), int(of_all_runs(s.latest)) + 1))
        (u, w), clock = push(s.u - step * g, s.w, mail), s.latest + 1
        return State(quotient(u, w, self.floor, s.x), u, w, clock, latest=mail.highest(clock))

    def rest(self, s: State, mail: Mail) -> State:
        u, w = take(s.u, s.w, mail)
        return s._replace(x=quotient(u, w, self.floor, s.x), u=u, w=w)

    def held(self, s: State) -> Tensor:
        return joined(s.u, s.w)
