"""Methods that are more than + - * / and mixings."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from dsgt.core import Algorithm, Mix


class State(NamedTuple):
    x: Tensor


class Clipped(Algorithm[State]):
    """Looks at all coordinates at once, by torch's own functions; it does not say that it is arithmetic."""

    sends, exact = 1, False

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        return State(mix(s.x - lr * g / g.norm(dim=-1, keepdim=True)))


class Together(Clipped):
    """Arrays understand it, but it is no linear formula."""

    arithmetic = True

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        x, _ = mix.together(s.x - lr * g, s.x[..., :1])
        return State(x)
