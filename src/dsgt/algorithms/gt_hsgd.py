"""GT-HSGD: gradient tracking of the hybrid estimates of STORM, for gradients that come as a stream.

    Y' = W (Y + V' - V)
    X' = W (X - lr Y')
    v' = g(x'; batch) + (1 - beta) (v - g(x; batch))

beta = 1 is GT-DSGD. No pass over all samples is needed.
Guarantee: a stationary point of a smooth function after O(eps^-3 / n) gradients a node, with lr and beta that fall with
the number of rounds (Xin, Khan and Kar, 2021). A constant lr and beta leave a floor of noise.
Xin, Khan and Kar, A hybrid variance-reduced method for decentralized stochastic non-convex optimization, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.aug_dgm import AugDGM
from dsgt.core import parameter
from dsgt.oracles import STORM


@dataclass(frozen=True)
class GTHSGD(AugDGM):
    beta: float = parameter(0.1, "weight of the new gradient", above=0, most=1)
    full_start: bool = parameter(False, "whether the first gradient is of all samples, not of a batch")

    @property
    def asks(self) -> STORM:  # type: ignore[override]
        return STORM(self.beta, self.full_start)
