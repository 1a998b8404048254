"""A network that notes the order in which messages are started and waited for."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dsgt.core import Around, Matrix, Mix, Pending, Sendable, Weights, wire_of
from dsgt.networks import Dense


class Recorder(Around):
    """All nodes in this process. ``log`` gets "start 1", "wait 1", ...; a gradient may note itself there too."""

    takes_arrays = False

    def __init__(self, W: Matrix, log: list[str]) -> None:
        super().__init__(Dense(W))
        self.log = log
        self.sizes: list[int] = []
        """Bytes of every message, as one node sends it to one neighbour."""

    def round(self, k: int, weights: Weights) -> Mix:
        return RecordedMix(self, self.inner.round(k, weights))

    def noted(self, v: Sendable, pending: Pending) -> Pending:
        self.sizes.append(wire_of(v)[0].nbytes)
        self.log.append(f"start {len(self.sizes)}")
        return Recorded(pending, self.log, len(self.sizes))


@dataclass(frozen=True)
class RecordedMix(Mix):
    recorder: Recorder
    mix: Mix

    @property
    def k(self) -> int:
        return self.mix.k

    @property
    def nodes(self) -> int:
        return self.mix.nodes

    @property
    def rows(self) -> Tensor:
        return self.mix.rows

    @property
    def push(self) -> Mix:
        return RecordedMix(self.recorder, self.mix.push)

    def start(self, v: Sendable) -> Pending:
        return self.recorder.noted(v, self.mix.start(v))

    def start_flow(self, v: Sendable) -> Pending:
        return self.recorder.noted(v, self.mix.start_flow(v))

    def start_exchange(self, v: Tensor) -> Pending:
        return self.recorder.noted(v[..., 0, :], self.mix.start_exchange(v))

    @property
    def own(self) -> Tensor:
        return self.mix.own

    @property
    def hears(self) -> Tensor:
        return self.mix.hears

    @property
    def tells(self) -> Tensor:
        return self.mix.tells

    @property
    def weights(self) -> Tensor:
        return self.mix.weights


class Recorded(Pending):
    def __init__(self, pending: Pending, log: list[str], number: int) -> None:
        self.pending, self.log, self.number = pending, log, number

    def wait(self) -> Tensor:
        self.log.append(f"wait {self.number}")
        return self.pending.wait()
