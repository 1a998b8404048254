"""Ways to mix. None of them knows an algorithm."""

from __future__ import annotations

from dsgt.networks.clocked import Clocked, stragglers
from dsgt.networks.cycle import Cycle
from dsgt.networks.dense import Dense
from dsgt.networks.mpi import MPIPeers
from dsgt.networks.peers import NeighbourError
from dsgt.networks.torchdist import TorchPeers
from dsgt.topologies.leave import without

__all__ = ["Clocked", "Cycle", "Dense", "MPIPeers", "NeighbourError", "TorchPeers", "stragglers", "without"]
