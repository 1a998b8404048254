"""GT-SARAH: gradient tracking of the estimates of SARAH.

    Y' = W Y + V' - V
    X' = W X - lr Y'
    v' = v + g(x'; batch) - g(x; batch),   v = grad f(x) every so many rounds

Guarantee: a stationary point of a smooth function after O(max(sqrt(N), terms of the network) L / eps^2) gradients
of samples (Xin, Khan and Kar, 2022).
Xin, Khan and Kar, Fast decentralized non-convex finite-sum optimization with recursive variance reduction, 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.gnsd import GNSD
from dsgt.core import parameter
from dsgt.oracles import SARAH


@dataclass(frozen=True)
class GTSARAH(GNSD):
    every: int = parameter(50, "rounds between two exact gradients, in the mean where they are random", least=1)
    loopless: bool = parameter(False, "whether each round looks at all samples with probability 1/every")

    @property
    def asks(self) -> SARAH:  # type: ignore[override]
        return SARAH(self.every, self.loopless)
