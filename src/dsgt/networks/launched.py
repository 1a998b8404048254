"""Who started this process: torchrun, mpiexec, or nobody but the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dsgt.core import Network
from dsgt.networks.dense import Dense
from dsgt.networks.mpi import MPIPeers
from dsgt.networks.peers import TIMEOUT
from dsgt.networks.torchdist import TorchPeers
from dsgt.topologies.matrix import MatrixLike

Kind = Literal["simulator", "torch", "mpi"]
KINDS: tuple[Kind, ...] = ("simulator", "torch", "mpi")

_MPI = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
"""What Open MPI, MPICH and Intel MPI tell a process before it asks."""


@dataclass(frozen=True)
class Launched:
    """Where this process stands among those of its job."""

    kind: Kind
    rank: int = 0
    size: int | None = None
    """How many processes there are, each a node; None where all nodes are simulated in this one."""

    def connect(self, W: MatrixLike, *, timeout: float = TIMEOUT) -> Network:
        """The network that these weights make of the job. On real nodes tensors live in main memory."""
        if self.kind == "torch":
            return TorchPeers(W, timeout=timeout, backend="gloo")
        if self.kind == "mpi":
            return MPIPeers(W, timeout=timeout)
        return Dense(W)


def launched(kind: str | None = None, environ: Mapping[str, str] = os.environ) -> Launched:
    """As the environment tells; ``kind`` says whom to believe, and is refused where there is no sign of it."""
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
