"""DSA, decentralized double stochastic averaging: EXTRA with the estimates of SAGA in the place of gradients.

    X'' = (I + W) X' - W~ X - lr (V' - V),   first step X' = W X - lr V
    v = g_j(x) - phi_j + mean(phi),   phi_j <- g_j(x)

The table phi is filled at the first model, so the first v is the exact gradient. q = 1 is EXTRA with exact gradients.
Guarantee: linear on strongly convex functions, to the optimum, with a constant lr (Mokhtari and Ribeiro, 2016).
Mokhtari and Ribeiro, DSA: decentralized double stochastic averaging gradient algorithm, 2016.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.extra import EXTRA
from dsgt.core import parameter
from dsgt.oracles import SAGA


@dataclass(frozen=True)
class DSA(EXTRA):
    q: int = parameter(10, "parts that every node's samples are cut into; the table holds so many vectors", least=1)
    limit: float = parameter(2.0, "gigabytes that the tables of the nodes here may take", above=0)

    @property
    def asks(self) -> SAGA:  # type: ignore[override]
        return SAGA(self.q, self.limit)
