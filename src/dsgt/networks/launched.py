"""Who started this process: torchrun, mpiexec, or nobody but the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dsgt.core import Network, Weights
from dsgt.networks.dense import Dense
from dsgt.networks.mpi import MPIPeers
from dsgt.networks.peers import TIMEOUT
from dsgt.networks.torchdist import TorchPeers
from dsgt.topologies.matrix import MatrixLike

Kind = Literal["simulator", "torch", "mpi"]
KINDS: tuple[Kind, ...] = ("simulator", "torch", "mpi")

_MPI = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
"""The variables in which Open MPI, and MPICH and Intel MPI, give a process its rank and the number of processes."""


@dataclass(frozen=True)
class Launched:
    """Which launcher started this process, its rank, and how many processes were started."""

    kind: Kind
    rank: int = 0
    size: int | None = None
    """How many processes there are, each a node; None where all nodes are simulated in this one."""

    def connect(self, W: MatrixLike | Weights, *, timeout: float = TIMEOUT) -> Network:
        """The network with weights W: of the job's processes, or simulated in this one. Messages between processes are
        sent from main memory, so under torchrun the backend is gloo."""
        if self.kind == "torch":
            return TorchPeers(W, timeout=timeout, backend="gloo")
        if self.kind == "mpi":
            return MPIPeers(W, timeout=timeout)
        return Dense(W)


def launched(kind: str | None = None, environ: Mapping[str, str] = os.environ) -> Launched:
    """Read from the environment variables that torchrun and mpiexec set; "simulator" where there are none.

    ``kind`` chooses where both are set. A ValueError where its variables are not set.
    """
    found = _found(environ)
    if kind is None:
        return next(iter(found.values()), Launched("simulator"))
    if kind == "simulator":
        return Launched("simulator")
    if kind not in found:
        start = {"torch": "torchrun --nproc-per-node N", "mpi": "mpiexec -n N"}[kind]
        raise ValueError(f"backend is {kind}, but this process was not started so: start it with {start} ...")
    return found[kind]


def _found(environ: Mapping[str, str]) -> dict[str, Launched]:
    found: dict[str, Launched] = {}
    for kind, names in (("torch", [("RANK", "WORLD_SIZE")]), ("mpi", _MPI)):
        for rank, size in names:
            if rank in environ and size in environ:
                found.setdefault(kind, Launched(kind, int(environ[rank]), int(environ[size])))  # type: ignore[arg-type]
    return found
