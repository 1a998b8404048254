"""Conjugates at the two ends of the edge that a round has drawn; everybody else repeats what he last said.

    x = grad f_i*(u),   that is, the x at which grad f_i(x) = u

Only ESDACD asks so. Who is not asked computes nothing and is charged nothing. It keeps one m-vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from dsgt.core import Local, Oracle


class Last(NamedTuple):
    x: Tensor


@dataclass(frozen=True)
class DrawnConjugate(Oracle[Last]):
    ends: Callable[[int], tuple[int, int] | None] = field(default=lambda k: None, repr=False)
    """The two nodes of round k."""

    wants: ClassVar[tuple[str, ...]] = ("inverse", "penalty")
    keeps: ClassVar[int] = 1

    def init(self, f: Local, x: Tensor) -> Last:
        return Last(torch.zeros_like(x))

    def ask(self, memory: Last, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Last]:
        asked = torch.isin(f.rows, torch.tensor(self.ends(k), device=f.rows.device))
        found = solved(f, x, torch.zeros_like(f.rows), 1, f.penalty(), 1.0, memory.x, asked)
        return found, Last(found)


def solved(f: Local, r: Tensor, j: Tensor, q: int, own: float, weight: float, near: Tensor, asked: Tensor) -> Tensor:
    """own x + weight (the gradient of part j without its penalty) = r at the nodes that are asked, (..., 1), and
    ``near`` at the others, for whom that is the solution of 1 x + 0 = near."""
    if not asked.any():
        return near
    before, one = f.bill(), torch.ones_like(r[..., :1])
    own_x, weighted = torch.where(asked, own * one, one), torch.where(asked, weight * one, 0 * one)
    x = f.inverse(torch.where(asked, r, near), j, q, own_x, weighted, near)
    charge(f, before, asked)
    return x


def charge(f: Local, before: float | Tensor, asked: Tensor) -> None:
    """What was spent since the bill of ``before`` is charged to those who were asked."""
    f.spent = before + f.bill() * asked[..., 0].double().cpu()
