"""Conjugates: the gradient of f_i* in the place of that of f_i, for methods that move dual variables.

    x = grad f_i*(u),   that is, the x at which grad f_i(x) = u

The problem must compute it: least squares in closed form, logistic regression by Newton, a convex module by L-BFGS,
each from the answer of the round before. f_i must be strongly convex. It keeps one m-vector.
Guarantee: none by itself; what a method promises with it is said there (SSDA, MSDA).
Rockafellar, Convex analysis, 1970, Theorem 23.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Local, Network, Oracle


class Answer(NamedTuple):
    x: Tensor


@dataclass(frozen=True)
class Conjugate(Oracle[Answer]):
    wants: ClassVar[tuple[str, ...]] = ("conjugate",)

    def init(self, f: Local, x: Tensor) -> Answer:
        return Answer(torch.zeros_like(x))

    def ask(self, memory: Answer, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Answer]:
        found = f.conjugate(x, memory.x)
        return found, Answer(found)


def curvature(who: str, network: Network, f: Local, *, L: float = 0.0) -> tuple[float, float]:
    """How strongly convex the nodes' functions are at least, and how curved at most (L where it is given). All nodes
    ask at once. A ValueError where one is not strongly convex, for the dual method of this name."""
    mu = network.gather(f.convexity())
    if not bool((mu > 0).all()):
        raise ValueError(
            f"{who} needs strongly convex functions at all nodes, but that of node {int(mu.argmin())} is not: use l2 "
            "(weight_decay) above 0, or a method that asks for gradients"
        )
    return float(mu.min()), L or float(network.gather(f.smoothness(1)).max()) + f.penalty()
