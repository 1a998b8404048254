"""One node of several in this process, and the others played by a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dsgt.core import Done, Mix, Network, Pending, Sendable, value_of
from dsgt.topologies.changing import Cycle

Fellow = Callable[[Tensor], Tensor]
FINGERPRINT = 1e6
"""Larger numbers are fingerprints: the fellows run the same method with the same settings."""


class Played(Network):
    """Node 0. Where it sends v, every fellow has sent ``fellow(v)``. Round k mixes with Ws[k], over and over again."""

    node = 0

    def __init__(self, Ws: Sequence[np.ndarray], fellow: Fellow = lambda v: v) -> None:
        super().__init__()
        self.weights, self.fellow, self.nodes = Cycle(Ws), fellow, len(Ws[0])
        self.asked = 0
        """How often all nodes were asked for something at once."""

    def at(self, k: int) -> Mix:
        return _Mix(float(self.weights.at(k)[0, 0]), self.fellow, k, self.nodes)

    def gather(self, v: Tensor) -> Tensor:
        self.asked += 1
        said = torch.where(v.abs() > FINGERPRINT, v, self.fellow(v)) if v.dtype is torch.float64 else self.fellow(v)
        return torch.stack([v, *[said] * (self.nodes - 1)])

    def mean(self, v: Tensor) -> Tensor:
        return self.gather(v).mean(dim=0)


@dataclass(frozen=True)
class _Mix(Mix):
    kept: float
    fellow: Fellow
    number: int
    size: int

    @property
    def k(self) -> int:
        return self.number

    @property
    def nodes(self) -> int:
        return self.size

    @property
    def rows(self) -> Tensor:
        return torch.zeros(1, dtype=torch.int64)

    @property
    def own(self) -> Tensor:
        return torch.tensor([self.kept], dtype=torch.float64)

    @property
    def push(self) -> Mix:
        return self

    @property
    def hears(self) -> Tensor:
        return torch.arange(1, self.size)

    tells = hears

    @property
    def weights(self) -> Tensor:
        return torch.full((self.size - 1, 1), (1 - self.kept) / (self.size - 1), dtype=torch.float64)

    def start_exchange(self, v: Tensor) -> Pending:
        return Done(self.fellow(v.expand(self.size - 1, -1)))

    def start(self, v: Sendable) -> Pending:
        return Done(self.kept * value_of(v) + (1 - self.kept) * self.fellow(value_of(v)))

    def start_flow(self, v: Sendable) -> Pending:
        return Done((1 - self.kept) * (self.fellow(value_of(v)) - value_of(v)))
