"""Peer-to-peer training in PyTorch, without a server, exact on uneven data."""

from dsgt import algorithms, checkpoint, data, metrics, networks, problems, randomness, theory, topologies
from dsgt._version import __version__
from dsgt.algorithms import (
    ALGORITHMS,
    D2,
    DPSGD,
    DSGT,
    EXTRA,
    GNSD,
    SGD,
    SGP,
    AtcDPSGD,
    AugDGM,
    ExactDiffusion,
)
from dsgt.comparison import Comparison, Settings, compare
from dsgt.core import Algorithm, Mix, Needs, Network, Pending, restart_tracking, settle
from dsgt.divergence import DivergedError
from dsgt.networks import NeighbourError
from dsgt.optim import Optimizer
from dsgt.run import Result, iterate, run

__all__ = [
    "ALGORITHMS",
    "D2",
    "DPSGD",
    "DSGT",
    "EXTRA",
    "GNSD",
    "SGD",
    "SGP",
    "Algorithm",
    "AtcDPSGD",
    "AugDGM",
    "Comparison",
    "DivergedError",
    "ExactDiffusion",
    "Mix",
    "Needs",
    "NeighbourError",
    "Network",
    "Optimizer",
    "Pending",
    "Result",
    "Settings",
    "__version__",
    "algorithms",
    "checkpoint",
    "compare",
    "data",
    "iterate",
    "metrics",
    "networks",
    "problems",
    "randomness",
    "restart_tracking",
    "run",
    "settle",
    "theory",
    "topologies",
]
