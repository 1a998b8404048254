"""Implicit SAGA: the estimate of SAGA at the point where the step with it ends.

    x' = p - lr s,   s = g_j(x') - phi_j + mean(phi),   phi_j <- g_j(x')

asked at p, where a method stands before it subtracts lr s. So x' is a resolvent, of x' + lr g_j(x') = p + lr (phi_j -
mean(phi)). Only DSBA asks so. The table takes q m-vectors a node, and one pass over the samples fills it at the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dsgt.core import Local
from dsgt.oracles.table import Table, Tabled, drawn


@dataclass(frozen=True)
class ImplicitSAGA(Tabled):
    wants: ClassVar[tuple[str, ...]] = ("part", "resolvent")

    def ask(self, memory: Table, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Table]:
        j, entry = drawn(f, self.q, k)
        psi = x + lr * (memory.entries(entry) - memory.mean)
        new = (psi - f.resolvent(psi, j, self.q, lr)) / lr
        change, after = memory.replace_(entry, new, k)
        return change + memory.mean, after
