"""Implicit SAGA: the estimate of SAGA at the point where the step with it ends.

    x' = p - lr s,   s = g_j(x') - phi_j + mean(phi),   phi_j <- g_j(x')

asked at p, where a method stands before it subtracts lr s. So x' is a resolvent, of x' + lr g_j(x') = p + lr (phi_j -
mean(phi)). Only DSBA asks so. The table takes q m-vectors a node, and one pass over the samples fills it at the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dsgt.core import Local, Oracle, parameter
from dsgt.oracles.table import Table, check_size, drawn


@dataclass(frozen=True)
class ImplicitSAGA(Oracle[Table]):
    q: int = parameter(10, "parts that every node's samples are cut into; the table holds so many vectors", least=1)
    limit: float = parameter(2.0, "gigabytes that the tables of the nodes here may take", above=0)

    wants: ClassVar[tuple[str, ...]] = ("part", "resolvent")

    @property
    def keeps(self) -> int:  # type: ignore[override]
        return self.q + 1

    def check(self, f: Local, x: Tensor) -> None:
        f.check(self.wants, self.q)
        check_size(x, self.q, self.limit)

    def init(self, f: Local, x: Tensor) -> Table:
        return Table.filled(f, x, self.q, self.limit)

    def ask(self, memory: Table, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Table]:
        j, entry = drawn(f, self.q, k)
        psi = x + lr * (memory.entries(entry) - memory.mean)
        new = (psi - f.resolvent(psi, j, self.q, lr)) / lr
        change, after = memory.replace_(entry, new, k)
        return change + memory.mean, after
