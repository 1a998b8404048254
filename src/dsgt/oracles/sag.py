"""SAG: the mean of a table of the last gradients of the q parts of a node's samples.

    phi_j <- g_j(x),   s = mean(phi),   j drawn anew for every node and round

Biased, with less variance than SAGA; the bias vanishes at the optimum. Cost and memory are those of SAGA.
Guarantee: linear on strongly convex functions, for lr = 1/(16 L) on one node (Schmidt et al., 2017, Theorem 1).
Le Roux, Schmidt and Bach, A stochastic gradient method with an exponential convergence rate for finite sums, 2012;
Schmidt, Le Roux and Bach, Minimizing finite sums with the stochastic average gradient, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dsgt.core import Local, Oracle, parameter
from dsgt.oracles.table import Table, check_size, drawn


@dataclass(frozen=True)
class SAG(Oracle[Table]):
    q: int = parameter(10, "parts that every node's samples are cut into; the table holds so many vectors", least=1)
    limit: float = parameter(2.0, "gigabytes that the tables of the nodes here may take", above=0)

    wants: ClassVar[tuple[str, ...]] = ("part",)

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
        _, after = memory.replace_(entry, f.part(x, j, self.q), k)
        return after.mean, after
