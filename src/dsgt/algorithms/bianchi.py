"""Bianchi, stochastic approximation by pairwise gossip: D-PSGD, adapt then combine, in which one pair mixes a round.

    X' = W_k (X - lr S)

In round k one edge of the given network is drawn, and its two ends take the mean of their models: ``topologies.Pairs``.
Everybody else keeps what he has.
Guarantee: with a falling lr all nodes converge to the same stationary point, almost surely (Bianchi et al., 2013). A
constant step leaves an O(lr) distance when the nodes' data differ, on top of the noise of the draws.
Bianchi, Fort and Hachem, Performance of a distributed stochastic approximation algorithm, 2013.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.atc_dpsgd import AtcDPSGD
from dsgt.core import Network, parameter


@dataclass(frozen=True)
class Bianchi(AtcDPSGD):
    seed: int = parameter(0, "of the draws")

    def over(self, network: Network) -> Network:
        from dsgt.topologies.random_weights import Pairs  # here: who lists methods waits for no graphs

        return network.over(Pairs(network.weights.matrices[0], seed=self.seed))
