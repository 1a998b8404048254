"""One node per rank under mpiexec: mpi4py."""

from __future__ import annotations

import atexit
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from dsgt.networks.flights import Request
from dsgt.networks.peers import TIMEOUT, Peers
from dsgt.topologies.matrix import MatrixLike

_TAGS = 1 << 15  # the least number of tags that MPI promises
_PATIENCE = 2e-3
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
            time.sleep(_PAUSE if waited > _PATIENCE else 0)  # leave the core to a process that computes


class MPIPeers(Peers):
    """Every rank of the communicator (by default the world) is a node; rank i is node i of W."""

    def __init__(self, W: MatrixLike, *, timeout: float = TIMEOUT, comm: Any = None) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise ImportError("MPIPeers needs mpi4py and an MPI library: pip install 'dsgt[mpi]'") from error
        self._mpi = MPI
        self._threads = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        # A communicator of its own: no other message, of the user's or of another network, can be taken for ours.
        self._comm = (MPI.COMM_WORLD if comm is None else comm).Dup()
        super().__init__(
            W,
            node=self._comm.Get_rank(),
            world=self._comm.Get_size(),
            launcher="mpiexec -n {n} python script.py",
            timeout=timeout,
        )

    def exchange(
        self, v: Tensor, buffers: Mapping[int, Tensor], number: int
    ) -> tuple[dict[int, Request], dict[int, Request]]:
        tag = number % _TAGS
        receiving: dict[int, Request] = {}
        for j, buffer in buffers.items():
            into = self._bytes(buffer)
            receiving[j] = _MPIRequest(self._comm.Irecv(into, source=j, tag=tag), into)
        outgoing = self._bytes(v)
        sending: dict[int, Request] = {
            i: _MPIRequest(self._comm.Isend(outgoing, dest=i, tag=tag), outgoing) for i in self.tells
        }
        return receiving, sending

    def close(self) -> None:
        super().close()
        if not self._broken and self._comm != self._mpi.COMM_NULL:
            self._comm.Free()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            code = error.code if isinstance(error, SystemExit) else 1
            self._break(code if isinstance(code, int) and code else 1)
        super().__exit__(kind, error, trace)

    def _break(self, code: int = 1) -> None:
        # MPI_Finalize waits for every rank, also for the dead and the hanging: end the job instead, with an exit code
        # that a scheduler understands.
        if not self._broken:
            atexit.register(self._mpi.COMM_WORLD.Abort, code)
        super()._break()

    def _all_reduce(self, v: Tensor) -> Request:
        buffer = v.detach().numpy() if v.device.type == "cpu" else v.detach()
        return _MPIRequest(self._comm.Iallreduce(self._mpi.IN_PLACE, buffer), buffer)

    def _bytes(self, v: Tensor) -> list[Any]:
        """The memory of v for MPI, which knows fewer dtypes than torch; on a GPU, MPI must be CUDA-aware."""
        raw = v.detach().view(torch.uint8)
        return [raw.numpy() if v.device.type == "cpu" else raw, self._mpi.BYTE]
