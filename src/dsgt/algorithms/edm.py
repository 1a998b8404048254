"""EDM, Exact Diffusion with momentum: each node averages its own gradients over time.

    Z = X - lr M - d,   F = (W - I) Z / 2,   X' = Z + F,   d' = d - F
    m' = beta m + (1 - beta) s

beta = 0 is Exact Diffusion.
Guarantee: a neighbourhood of a stationary point whose radius does not depend on how much the nodes' data differ,
reached linearly under the Polyak-Lojasiewicz condition (Hu et al., 2025).
Hu, Chen, Liu and Mao, A bias-correction decentralized stochastic gradient algorithm with momentum acceleration, 2025.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.exact_diffusion import ExactDiffusion
from dsgt.core import parameter
from dsgt.oracles import Momentum


@dataclass(frozen=True)
class EDM(ExactDiffusion):
    beta: float = parameter(0.9, "weight of the past", least=0, below=1)

    @property
    def asks(self) -> Momentum:  # type: ignore[override]
        return Momentum(self.beta)
