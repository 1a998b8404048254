"""One node per rank under mpiexec: mpi4py."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dsgt.core import Weights
from dsgt.networks.mpi_farewells import Farewells
from dsgt.networks.peers import TIMEOUT, Peers
from dsgt.networks.transport import Farewell, Request, Requests, Transport, WrongMessageError
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
    status: Any = None
    hopeless: Callable[[], bool] = lambda: False
    """Whether the message will never come."""

    def finish(self, timeout: float) -> None:
        began = time.monotonic()
        while not self.request.Test(self.status):
            waited = time.monotonic() - began
            if waited > timeout:
                raise TimeoutError("timed out")
            if waited > _EAGER:
                if self.hopeless():
                    raise RuntimeError("no more messages")
                time.sleep(_PAUSE)  # leave the core to a process that computes
            else:
                time.sleep(0)


@dataclass(frozen=True)
class _Received(Request):
    """MPI refuses a message that is longer than the buffer, but not a shorter one."""

    message: _MPIRequest
    length: int

    def finish(self, timeout: float) -> None:
        self.message.finish(timeout)
        if (came := self.message.status.count) != self.length:
            raise WrongMessageError(f"it sent {came} bytes, but {self.length} were expected")


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
        comm = MPI.COMM_WORLD if comm is None else comm
        self._farewells = Farewells(MPI, comm)
        self._comm = comm.Dup()
        self.node, self.size = self._comm.Get_rank(), self._comm.Get_size()
        here = self._comm.Split_type(MPI.COMM_TYPE_SHARED)  # those who can share memory
        self.beside = self.size if here.Get_size() == self.size else None
        here.Free()

    def exchange(
        self, letters: Mapping[int, Tensor], into: Mapping[int, Tensor], number: int
    ) -> tuple[Requests, Requests]:
        tag = number % _TAGS
        receiving: Requests = {}
        for j, buffer in into.items():
            memory = self._bytes(buffer)
            request = self._comm.Irecv(memory, source=j, tag=tag)
            hopeless = partial(self._farewells.will_not_send, j, number)
            receiving[j] = _Received(_MPIRequest(request, memory, self._mpi.Status(), hopeless), buffer.nbytes)
        sending: Requests = {}
        for i, letter in letters.items():
            memory = self._bytes(letter)
            sending[i] = _MPIRequest(self._comm.Isend(memory, dest=i, tag=tag), memory)
        return receiving, sending

    def all_reduce(self, v: Tensor) -> Request:
        buffer = v.detach().numpy() if v.device.type == "cpu" else v.detach()
        return _MPIRequest(self._comm.Iallreduce(self._mpi.IN_PLACE, buffer), buffer)

    def abort(self, code: int = 1) -> None:
        # MPI_Finalize waits for every rank, also for the dead and the hanging: end the job instead, with an exit code
        # that a scheduler understands.
        atexit.register(self._mpi.COMM_WORLD.Abort, code)

    def close(self, farewell: Farewell) -> None:
        self._farewells.tell(farewell)
        if self._comm != self._mpi.COMM_NULL:
            self._comm.Free()

    def ended(self) -> dict[int, str]:
        return self._farewells.words()

    def _bytes(self, v: Tensor) -> list[Any]:
        """The memory of v for MPI, which knows fewer dtypes than torch; on a GPU, MPI must be CUDA-aware."""
        raw = v.detach().view(torch.uint8)
        return [raw.numpy() if v.device.type == "cpu" else raw, self._mpi.BYTE]


def MPIPeers(W: MatrixLike | Weights, *, timeout: float = TIMEOUT, comm: Any = None) -> Peers:
    """Every rank of the communicator (by default the world) is a node; rank i is node i of W."""
    return Peers(W, MPITransport(comm), timeout=timeout)
