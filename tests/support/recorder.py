"""A network that notes the order in which messages are started and waited for."""

from __future__ import annotations

from torch import Tensor

from dsgt.core import Matrix, Mix, Network, Pending
from dsgt.networks import Dense


class Recorder(Network, Mix):
    """All nodes in this process. ``log`` gets "start 1", "wait 1", ...; a gradient may note itself there too."""

    def __init__(self, W: Matrix, log: list[str]) -> None:
        super().__init__()
        self.dense, self.log, self.nodes = Dense(W), log, len(W)
        self.sizes: list[int] = []
        """Bytes of every message, as one node sends it to one neighbour."""

    @property
    def matrices(self):
        return self.dense.matrices

    def at(self, k: int) -> Mix:
        return self

    def start(self, v: Tensor) -> Pending:
        return self._noted(v, self.dense.start(v))

    def start_flow(self, v: Tensor) -> Pending:
        return self._noted(v, self.dense.start_flow(v))

    def _noted(self, v: Tensor, pending: Pending) -> Pending:
        self.sizes.append(v[0].numel() * v.element_size())
        self.log.append(f"start {len(self.sizes)}")
        return Recorded(pending, self.log, len(self.sizes))

    def gather(self, v: Tensor) -> Tensor:
        return v

    def mean(self, v: Tensor) -> Tensor:
        return v.mean(dim=0)


class Recorded(Pending):
    def __init__(self, pending: Pending, log: list[str], number: int) -> None:
        self.pending, self.log, self.number = pending, log, number

    def wait(self) -> Tensor:
        self.log.append(f"wait {self.number}")
        return self.pending.wait()
