"""DeTAG, gradient tracking with accelerated gossip: DSGT in which R rounds of gossip stand for one.

    X' = P(W) (X - lr Y)
    Y' = P(W) Y + S' - S

P is the polynomial of ``networks.accelerated``: z' = (1 + eta) W z - eta z_before, R times. mean(y) = mean(s) after
every round. The paper takes R times as many samples for a gradient.
Guarantee: the rate that no method with n nodes, noise and this network can beat, up to logarithms, for
R = O(log / sqrt(1 - rho)) (Lu and De Sa, 2021). Exact with a constant step. W must be symmetric.
Lu and De Sa, Optimal complexity in decentralized training, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.dsgt import DSGT
from dsgt.core import Network, parameter


@dataclass(frozen=True)
class DeTAG(DSGT):
    R: int = parameter(4, "rounds of gossip for a mixing", least=1)

    @property
    def sends(self) -> float:  # type: ignore[override]
        return 2 * self.R

    def over(self, network: Network) -> Network:
        from dsgt.gossip import accelerated  # here: who lists methods waits for no graphs

        return accelerated(network, self.R)
