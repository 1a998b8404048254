"""SAG: the mean of a table of the last gradients of the q parts of a node's samples.

    phi_j <- g_j(x),   s = mean(phi),   j drawn anew for every node and round

Biased, with less variance than SAGA; the bias vanishes at the optimum. Cost and memory are those of SAGA.
Guarantee: linear on strongly convex functions, for lr = 1/(16 L) on one node (Schmidt et al., 2017, Theorem 1).
Le Roux, Schmidt and Bach, A stochastic gradient method with an exponential convergence rate for finite sums, 2012;
Schmidt, Le Roux and Bach, Minimizing finite sums with the stochastic average gradient, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dsgt.core import Local
from dsgt.oracles.table import Table, Tabled, drawn


@dataclass(frozen=True)
class SAG(Tabled):
    def ask(self, memory: Table, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Table]:
        j, entry = drawn(f, self.q, k)
        _, after = memory.replace_(entry, f.part(x, j, self.q), k)
        return after.mean, after
