"""Ways to mix. None of them knows an algorithm."""

from __future__ import annotations

from dsgt.gossip import Repeated, accelerated, chebyshev
from dsgt.networks.clocked import Clocked
from dsgt.networks.compute_times import memoryless, slowed, stragglers, trace
from dsgt.networks.dense import Dense
from dsgt.networks.hidden import alone
from dsgt.networks.memory import in_threads
from dsgt.networks.mpi import MPIPeers
from dsgt.networks.neighbours import NeighbourError
from dsgt.networks.peers import Peers
from dsgt.networks.torchdist import TorchPeers
from dsgt.topologies.changing import Cycle
from dsgt.topologies.leave import without

__all__ = [
    "Clocked",
    "Cycle",
    "Dense",
    "MPIPeers",
    "NeighbourError",
    "Peers",
    "Repeated",
    "TorchPeers",
    "accelerated",
    "alone",
    "chebyshev",
    "in_threads",
    "memoryless",
    "slowed",
    "stragglers",
    "trace",
    "without",
]
