"""SAGA: a table of the last gradient of each of the q parts of a node's samples.

    s = g_j(x) - phi_j + mean(phi),   phi_j <- g_j(x),   j drawn anew for every node and round

The mean of s over j is the exact gradient, and its variance vanishes at the optimum. A round looks at one part, at one
point. The table takes q m-vectors a node, and one pass over the samples fills it at the start.
Guarantee: linear on strongly convex functions, for lr <= 1/(3 L) on one node (Defazio et al., 2014).
Defazio, Bach and Lacoste-Julien, SAGA: a fast incremental gradient method, 2014.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dsgt.core import Local
from dsgt.oracles.table import Table, Tabled, drawn


@dataclass(frozen=True)
class SAGA(Tabled):
    def ask(self, memory: Table, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Table]:
        j, entry = drawn(f, self.q, k)
        change, after = memory.replace_(entry, f.part(x, j, self.q), k)
        return change + memory.mean, after
