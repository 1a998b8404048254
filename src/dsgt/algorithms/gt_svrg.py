"""GT-SVRG: gradient tracking of the estimates of SVRG.

    Y' = W Y + V' - V
    X' = W X - lr Y'
    v = g(x; batch) - g(z; batch) + grad f(z),   z <- x every so many rounds

Guarantee: linear on strongly convex functions, to the optimum, with a constant lr (Xin, Khan and Kar, 2020).
Xin, Khan and Kar, Variance-reduced decentralized stochastic optimization with accelerated convergence, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.gnsd import GNSD
from dsgt.core import parameter
from dsgt.oracles import SVRG


@dataclass(frozen=True)
class GTSVRG(GNSD):
    every: int = parameter(50, "rounds between two snapshots, in the mean where they are random", least=1)
    loopless: bool = parameter(False, "whether each round takes a snapshot with probability 1/every")

    @property
    def asks(self) -> SVRG:  # type: ignore[override]
        return SVRG(self.every, self.loopless)
