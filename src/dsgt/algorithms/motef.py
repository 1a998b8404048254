"""MoTEF: BEER that tracks moving averages of the gradients, for noisy gradients with compressed messages.

    V = V + gamma (W - I) G + M' - M,    G' = G + C(V - G)
    X' = X + gamma (W - I) H - lr V,     H' = H + C(X' - H)
    m' = (1 - lam) m + lam g(x'; batch)

lam = 1 is BEER.
Guarantee: O(1/sqrt(n K)) with noise for smooth functions, any contraction C and any difference of the nodes' data, with
lr and lam that fall with the number of rounds (Islamov, Gao and Stich, 2024).
Islamov, Gao and Stich, Towards faster decentralized stochastic optimization with communication compression, 2024.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.beer import BEER
from dsgt.core import parameter
from dsgt.oracles import Momentum


@dataclass(frozen=True)
class MoTEF(BEER):
    lam: float = parameter(0.1, "weight of the new gradient", above=0, most=1)

    @property
    def asks(self) -> Momentum:  # type: ignore[override]
        return Momentum(1 - self.lam)
