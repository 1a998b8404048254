"""MSDA, multi-step dual accelerated: SSDA in which K rounds of Chebyshev gossip stand for one.

    X = grad f*(U)
    Y' = U - lr (mu / high) (I - P(W)) X
    U' = Y' + beta (Y' - Y),   beta = (sqrt(kappa) - 1) / (sqrt(kappa) + 1),   kappa = (L high) / (mu low)

P is the polynomial of ``networks.chebyshev``; low = 1 - t and high = 1 + t, t being what it leaves of a disagreement.
The published K is 1 / sqrt(the ratio of the lowest to the highest nonzero eigenvalue of I - W), rounded down: K = 0.
A smaller one costs more conjugates and as many messages, a larger one messages. The rest is as for SSDA.
Guarantee: linear for smooth, strongly convex f_i with lr = 1 and the published K, in O(sqrt(L / mu) log(1/eps)) rounds
whatever the network, which no method can beat (Scaman et al., 2017). W must be symmetric.
Scaman, Bach, Bubeck, Lee and Massoulie, Optimal algorithms for smooth and strongly convex distributed optimization in
networks, 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dsgt.algorithms.ssda import SSDA
from dsgt.core import Network, parameter


@dataclass(frozen=True)
class MSDA(SSDA):
    K: int = parameter(4, "rounds of gossip for a step; 0: as published, by the network", least=0)

    @property
    def sends(self) -> float:  # type: ignore[override]
        return self.K or math.nan  # it is known when the network is

    def over(self, network: Network) -> Network:
        from dsgt.gossip import chebyshev  # here: who lists methods waits for no graphs

        return chebyshev(network, self.K or None)
