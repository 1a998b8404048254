"""GT-SAGA: gradient tracking of the estimates of SAGA.

    Y' = W Y + V' - V
    X' = W X - lr Y'
    v = g_j(x) - phi_j + mean(phi),   phi_j <- g_j(x)

Guarantee: linear on strongly convex functions, to the optimum, with a constant lr (Xin, Khan and Kar, 2020).
Xin, Khan and Kar, Variance-reduced decentralized stochastic optimization with accelerated convergence, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.gnsd import GNSD
from dsgt.core import parameter
from dsgt.oracles import SAGA


@dataclass(frozen=True)
class GTSAGA(GNSD):
    q: int = parameter(10, "parts that every node's samples are cut into; the table holds so many vectors", least=1)
    limit: float = parameter(2.0, "gigabytes that the tables of the nodes here may take", above=0)

    @property
    def asks(self) -> SAGA:  # type: ignore[override]
        return SAGA(self.q, self.limit)
