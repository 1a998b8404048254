"""MG-DSGD, D-PSGD with multiple gossip: adapt, then R rounds of accelerated gossip.

    X' = P(W) (X - lr S)

P is the polynomial of ``networks.accelerated``: z' = (1 + eta) W z - eta z_before, R times. The paper takes R times as
many samples for a gradient, so that a sample costs as many messages as with D-PSGD.
Guarantee: the rate that no method with n nodes, noise and this network can beat, up to logarithms, for
R = O(log / sqrt(1 - rho)) (Yuan et al., 2022). A constant step leaves an O(lr) distance when the nodes' data differ,
which falls with R like the disagreement that P leaves. W must be symmetric.
Yuan, Huang, Chen, Zhang, Zhang and Pan, Revisiting optimal convergence rate for smooth and non-convex stochastic
decentralized optimization, 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.atc_dpsgd import AtcDPSGD
from dsgt.core import Network, parameter


@dataclass(frozen=True)
class MGDSGD(AtcDPSGD):
    R: int = parameter(4, "rounds of gossip for a step", least=1)

    @property
    def sends(self) -> float:  # type: ignore[override]
        return self.R

    def over(self, network: Network) -> Network:
        from dsgt.gossip import accelerated  # here: who lists methods waits for no graphs

        return accelerated(network, self.R)
