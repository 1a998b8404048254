"""FedAvg, also called local SGD: every node takes K steps by itself, then all take the mean of their models.

    X' = M (X - lr S)

M = 11'/n in every K-th round and I in the others: D-PSGD, adapt then combine, over ``topologies.Periodic`` averaging.
The weights of the given network are not used, every node speaks with every other; K-GT, LED
and LU-GT mix with neighbours only, and are exact besides. K = 1 is centralized SGD.
Guarantee: O(1 / sqrt(n T)) after T rounds with noise (Stich, 2019, for equal data). A constant step leaves an O(lr K)
distance when the nodes' data differ.
McMahan, Moore, Ramage, Hampson and Aguera y Arcas, Communication-efficient learning of deep networks from decentralized
data, 2017; Stich, Local SGD converges fast and communicates little, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsgt.algorithms.atc_dpsgd import AtcDPSGD
from dsgt.core import Network, parameter


@dataclass(frozen=True)
class FedAvg(AtcDPSGD):
    K: int = parameter(4, "local steps between two averages", least=1)

    @property
    def sends(self) -> float:  # type: ignore[override]
        return 1 / self.K

    def over(self, network: Network) -> Network:
        from dsgt.topologies.changing import Periodic  # here: who lists methods waits for no graphs
        from dsgt.topologies.weights import averaging

        return network.over(Periodic(averaging(network.nodes), self.K))
