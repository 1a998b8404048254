"""What is measured: functions of a snapshot of all nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from dsgt.core import Network, tensors
from dsgt.problems.base import Problem


@dataclass(frozen=True)
class Snapshot:
    """A run seen from above, after k rounds."""

    k: int
    x: Tensor
    """Every node's model, (n, m)."""
    state: tuple[Any, ...]
    """This process's state; ``field`` gathers one of its tensors from all nodes."""
    problem: Problem
    network: Network
    seconds: float
    """Wall-clock seconds spent training, measuring excluded."""

    @property
    def mean(self) -> Tensor:
        """The network's mean model, (m,)."""
        return self.x.mean(dim=0)

    def field(self, name: str) -> Tensor:
        return self.network.gather(tensors(self.state)[name])


Metric: TypeAlias = Callable[[Snapshot], float]


def loss(s: Snapshot) -> float:
    """The mean loss over all samples, at the mean model."""
    return float(s.problem.loss(s.mean))


def gradient_norm(s: Snapshot) -> float:
    """The norm of the gradient of the mean loss, at the mean model."""
    return float(s.problem.gradient(s.mean).norm())


def consensus(s: Snapshot) -> float:
    """||X - 1 x̄'||_F / sqrt(n): how far a node's model is from the mean model, root mean square."""
    return float((s.x - s.mean).norm()) / math.sqrt(len(s.x))


def megabytes(s: Snapshot) -> float:
    """Sent so far by all nodes together."""
    return s.network.bytes_sent / 1e6


def seconds(s: Snapshot) -> float:
    return s.seconds


DEFAULT: dict[str, Metric] = {
    "loss": loss,
    "gradient_norm": gradient_norm,
    "consensus": consensus,
    "megabytes": megabytes,
    "seconds": seconds,
}
