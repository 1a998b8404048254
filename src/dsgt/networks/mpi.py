"""One node per rank under mpiexec: mpi4py."""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dsgt.networks.peers import TIMEOUT, Peers
from dsgt.networks.transport import Request, Requests, Transport
from dsgt.topologies.matrix import MatrixLike

_TAGS = 1 << 15  # the least number of tags that MPI promises
_EAGER = 2e-3
"""Seconds in which a message is asked for without a pause."""
_PAUSE = 5e-5


@dataclass(frozen=True)
class _MPIRequest(Request):
    request: Any
    keep: object
    """The buffer, which must live as long as the message travels."""

    def finish(self, timeout: float) -> None:
        began = time.monotonic()
        while not self.request.Test():
            waited = time.monotonic() - began
            if waited > timeout:
                raise TimeoutError("timed out")
            time.sleep(_PAUSE if waited > _EAGER else 0)  # leave the core to a process that computes


class MPITransport(Transport):
    """Every rank of the communicator (by default the world) is a node."""

    launcher = "mpiexec -n {n} python script.py"
    error_ends_job = True

    def __init__(self, comm: Any = None) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise ImportError("MPIPeers needs mpi4py and an MPI library: pip install 'dsgt[mpi]'") from error
        self._mpi = MPI
        self.threads = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        # A communicator of its own: no other message, of the user's or of another network, can be taken for ours.
        self._comm = (MPI.COMM_WORLD if comm is None else comm).Dup()
        self.node, self.size = self._comm.Get_rank(), self._comm.Get_size()

    def exchange(
        self, v: Tensor, *, to: Iterable[int], into: Mapping[int, Tensor], number: int
    ) -> tuple[Requests, Requests]:
        tag = number % _TAGS
        receiving: Requests = {}
        for j, buffer in into.items():
            memory = self._bytes(buffer)
            receiving[j] = _MPIRequest(self._comm.Irecv(memory, source=j, tag=tag), memory)
        outgoing = self._bytes(v)
        sending: Requests = {i: _MPIRequest(self._comm.Isend(outgoing, dest=i, tag=tag), outgoing) for i in to}
        return receiving, sending

    def all_reduce(self, v: Tensor) -> Request:
        buffer = v.detach().numpy() if v.device.type == "cpu" else v.detach()
        return _MPIRequest(self._comm.Iallreduce(self._mpi.IN_PLACE, buffer), buffer)

    def abort(self, code: int = 1) -> None:
        # MPI_Finalize waits for every rank, also for the dead and the hanging: end the job instead, with an exit code
        # that a scheduler understands.
        atexit.register(self._mpi.COMM_WORLD.Abort, code)

    def close(self) -> None:
        if self._comm != self._mpi.COMM_NULL:
            self._comm.Free()

    def _bytes(self, v: Tensor) -> list[Any]:
        """The memory of v for MPI, which knows fewer dtypes than torch; on a GPU, MPI must be CUDA-aware."""
        raw = v.detach().view(torch.uint8)
        return [raw.numpy() if v.device.type == "cpu" else raw, self._mpi.BYTE]


def MPIPeers(W: MatrixLike, *, timeout: float = TIMEOUT, comm: Any = None) -> Peers:
    """Every rank of the communicator (by default the world) is a node; rank i is node i of W."""
    return Peers(W, MPITransport(comm), timeout=timeout)
