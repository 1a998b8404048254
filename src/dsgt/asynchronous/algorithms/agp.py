"""AGP, asynchronous gradient-push: push-sum over directed links, and a gradient step whenever a node wakes.

    u = P (u - lr g) + taken
    w = P w + taken
    x = u / w

sum(w) + what is under way = n at every moment. Who wakes more often steps more often, so the end is biased: with a
constant lr to the minimum of sum_i rate_i f_i, rate_i the wakes of node i a second; with lr(k) = c / sqrt(k + 1) of the
node's own count k to that of sum_i sqrt(rate_i) f_i. ``AsySPA`` corrects it. Here running totals travel, so that links
may lose messages. With equal clocks and no delays it is OSGP with tau = 1.
Guarantee: the nodes agree, on the weighted minimum above; a constant step leaves a distance of O(lr) besides.
Assran and Rabbat, Asynchronous gradient-push, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.asynchronous.core import AsyncAlgorithm, Rate
from dsgt.asynchronous.mail import Mail
from dsgt.asynchronous.push_sum import is_light, joined, push, quotient, take
from dsgt.core import Needs, parameter


class State(NamedTuple):
    x: Tensor
    u: Tensor
    w: Tensor


@dataclass(frozen=True)
class AGP(AsyncAlgorithm[State]):
    floor: float = parameter(0.1, "a node with less weight neither steps nor gives", above=0, below=1)

    needs: ClassVar[Needs] = Needs(rows=False, static=True)
    sends: ClassVar[int] = 1  # and one number
    exact: ClassVar[bool] = False

    def init(self, x: Tensor) -> State:
        return State(x, u=x, w=torch.ones_like(x[..., :1]))

    def wake(self, s: State, g: Tensor, mail: Mail, lr: Rate) -> State:
        if is_light(s.w, self.floor):
            mail.repeat()
            return self.rest(s, mail)
        u, w = push(s.u - lr(mail.k) * g, s.w, mail)
        return State(quotient(u, w, self.floor, s.x), u, w)

    def rest(self, s: State, mail: Mail) -> State:
        u, w = take(s.u, s.w, mail)
        return State(quotient(u, w, self.floor, s.x), u, w)

    def held(self, s: State) -> Tensor:
        return joined(s.u, s.w)
