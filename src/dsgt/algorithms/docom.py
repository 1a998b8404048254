"""DoCoM: BEER that tracks the hybrid estimates of STORM, for noisy gradients with compressed messages.

    V = V + gamma (W - I) G + U' - U,    G' = G + C(V - G)
    X' = X + gamma (W - I) H - lr V,     H' = H + C(X' - H)
    u' = g(x'; batch) + (1 - beta) (u - g(x; batch))

beta = 1 is BEER. A round costs two gradients of a batch.
Guarantee: O(1/K^(2/3)) of the squared gradient's norm for smooth functions and any contraction C, with lr and beta that
fall with the number of rounds (Yau and Wai, 2023). A constant lr and beta leave a floor of noise.
Yau and Wai, DoCoM: compressed decentralized optimization with near-optimal sample complexity, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.beer import BEER
from dsgt.core import parameter
from dsgt.oracles import STORM


@dataclass(frozen=True)
class DoCoM(BEER):
    beta: float = parameter(0.1, "weight of the new gradient", above=0, most=1)
    full_start: bool = parameter(False, "whether the first gradient is of all samples, not of a batch")

    @property
    def asks(self) -> STORM:  # type: ignore[override]
        return STORM(self.beta, self.full_start)
