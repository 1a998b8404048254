"""What is measured: functions of a snapshot of all nodes. A runtime gathers the models and calls the same functions.

Nothing here draws random numbers, so measuring more often changes nothing but the time it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from torch import Tensor
from torch.linalg import vector_norm  # Tensor.norm is the same by a longer way

from dsgt.algorithms import ALGORITHMS
from dsgt.core import Around, Gradient, Network, tensors
from dsgt.networks.clocked import Clocked
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
    algorithm: Any
    """The method: an ``Algorithm``, or one in which nobody waits."""
    work: float | Tensor | None = None
    """What the oracle's answers have cost each node here, in gradients of a drawn batch; None for k of them."""

    @cached_property
    def mean(self) -> Tensor:
        """The network's mean model, (m,)."""
        return self.x.mean(dim=0)

    @cached_property
    def node_distances(self) -> Tensor:
        """How far each node's model is from the mean model, (n,)."""
        found: Tensor = vector_norm(self.x - self.mean, dim=1)
        return found

    @cached_property
    def node_losses(self) -> Tensor:
        """The mean loss over all samples, at each node's model, (n,)."""
        return self.problem.loss(self.x)

    @cached_property
    def node_accuracies(self) -> Tensor:
        """The test accuracy of each node's model, (n,)."""
        return self.problem.accuracy(self.x)

    @cached_property
    def optimum(self) -> Tensor:
        if self.problem.optimum is None:
            raise ValueError(
                f"the optimum of this {type(self.problem).__name__} is not known; use least squares, or logistic "
                "regression with l2 > 0, or measure the loss"
            )
        return self.problem.optimum

    def field(self, name: str) -> Tensor:
        return self.network.gather(tensors(self.state)[name])


Metric: TypeAlias = Callable[[Snapshot], float]


@dataclass(frozen=True)
class Seldom:
    """A metric that costs much: measured every so many rounds and after the last, where the others are measured too."""

    metric: Metric
    every: int
    last: int

    def due(self, k: int) -> bool:
        return k % self.every == 0 or k == self.last

    def __call__(self, s: Snapshot) -> float:
        return self.metric(s)


def due(metrics: Mapping[str, Metric], k: int) -> dict[str, Metric]:
    """Those of the metrics that are measured after round k."""
    return {name: metric for name, metric in metrics.items() if not isinstance(metric, Seldom) or metric.due(k)}


def loss(s: Snapshot) -> float:
    """The mean loss over all samples, at the mean model."""
    return float(s.problem.loss(s.mean))


def gradient_norm(s: Snapshot) -> float:
    """The norm of the gradient of the mean loss, at the mean model."""
    return float(s.problem.gradient(s.mean).norm())


def accuracy(s: Snapshot) -> float:
    """The test accuracy of the mean model."""
    return float(s.problem.accuracy(s.mean))


def node_loss_mean(s: Snapshot) -> float:
    """The mean loss over all samples, at each node's own model; then the mean over the nodes."""
    return float(s.node_losses.mean())


def node_loss_min(s: Snapshot) -> float:
    return float(s.node_losses.min())


def node_loss_max(s: Snapshot) -> float:
    return float(s.node_losses.max())


def node_accuracy_mean(s: Snapshot) -> float:
    """The test accuracy of each node's own model; then the mean over the nodes."""
    return float(s.node_accuracies.mean())


def node_accuracy_min(s: Snapshot) -> float:
    return float(s.node_accuracies.min())


def node_accuracy_max(s: Snapshot) -> float:
    return float(s.node_accuracies.max())


def consensus(s: Snapshot) -> float:
    """||X - 1 x̄'||_F / sqrt(n): how far a node's model is from the mean model, root mean square."""
    return float(vector_norm(s.x - s.mean)) / math.sqrt(len(s.x))


def tracking(s: Snapshot) -> float:
    """||Y - 1 s̄'||_F / sqrt(n): how far a node's tracker is from the mean gradient of all nodes, root mean square.

    Y is the tracker as the state holds it: W y, on its way through the network, where the method sends it early.
    """
    if s.algorithm.tracker is None:
        trackers = ", ".join(kind.__name__ for kind in ALGORITHMS.values() if kind.tracker)
        raise ValueError(
            f"tracking needs a tracker, but {type(s.algorithm).__name__} declares none; use one of {trackers}, or drop "
            "this metric"
        )
    y, gradient = (s.field(name) for name in s.algorithm.tracker)
    return float((y - gradient.mean(dim=0)).norm()) / math.sqrt(len(s.x))


def tracking_drift(s: Snapshot) -> float:
    """||ȳ - s̄||, zero but for rounding while no message is lost; or ||d̄||, where a method adds up flows to zero.

    It costs one mean over all nodes. Should it grow, ``restart_tracking`` or ``restart_every`` makes it zero again.
    """
    fields, method = tensors(s.state), s.algorithm
    if method.tracker is not None:
        y, gradient = (fields[name] for name in method.tracker)
        return float(s.network.mean(y - gradient).norm())
    if method.zero_sum is not None:
        return float(s.network.mean(fields[method.zero_sum]).norm())
    raise ValueError(
        f"tracking_drift needs a tracker or a sum of flows, but {type(method).__name__} declares neither `tracker` nor "
        "`zero_sum`; drop it here"
    )


def gap(s: Snapshot) -> float:
    """F(x̄) - F(x*): the excess loss of the mean model, where the optimum is known."""
    return float(s.problem.loss(s.mean)) - float(s.problem.loss(s.optimum))


def distance(s: Snapshot) -> float:
    """||X - 1 x*'||_F / sqrt(n): how far a node's model is from the optimum, root mean square, where it is known."""
    return float((s.x - s.optimum).norm()) / math.sqrt(len(s.x))


def epochs(s: Snapshot) -> float:
    """How often all samples have been looked at: full passes and gradients at two points count as what they cost."""
    if s.work is None or type(s.algorithm.asks) is Gradient:
        return s.k * s.problem.epochs_per_round
    batch, n = s.problem.batch.double().cpu(), s.network.nodes
    here = (s.work * (batch if s.network.node is None else batch[s.network.node])).reshape(-1, 1)
    return float(s.network.mean(here if s.network.node is None else here[0])) * n / s.problem.samples


def megabytes(s: Snapshot) -> float:
    """Sent so far by all nodes together."""
    return s.network.bytes_sent / 1e6


def seconds(s: Snapshot) -> float:
    """Wall-clock, training only."""
    return s.seconds


def virtual_seconds(s: Snapshot) -> float:
    """When the slowest node would have finished, by the network's own clock."""
    network = s.network
    while isinstance(network, Around) and not isinstance(network, Clocked):
        network = network.inner
    if not isinstance(network, Clocked):
        raise ValueError(f"{type(network).__name__} has no clock; use networks.Clocked(W, ...), or measure seconds")
    return network.seconds


def stationarity(L: float) -> Metric:
    """||∇f(x̄)||^2 + n L^2 ||X - 1 x̄'||_F^2, the term that the paper's R(k) averages, in the paper's units.

    There f is the sum of all losses, so ∇f = N ∇F, and L is the largest smoothness of a node's summed loss.
    """

    def term(s: Snapshot) -> float:
        n = len(s.x)
        return (s.problem.samples * gradient_norm(s)) ** 2 + n * L**2 * n * consensus(s) ** 2

    return term


def R(rows: Iterable[Mapping[str, float]], lr: Callable[[int], float], *, column: str = "stationarity") -> list[float]:
    """R(k) of the paper for every row: the mean of ``stationarity`` up to there, weighted with the learning rate.

    Exactly the paper's with ``every=1``; with sparser rows, the same average over the rounds that were measured.
    """
    total = weight = 0.0
    means = []
    for row in rows:
        step = lr(int(row["round"]))
        total += step * row[column]
        weight += step
        means.append(total / weight)
    return means


DEFAULT: dict[str, Metric] = {
    "loss": loss,
    "gradient_norm": gradient_norm,
    "consensus": consensus,
    "epochs": epochs,
    "megabytes": megabytes,
    "seconds": seconds,
}

CLASSIFICATION: dict[str, Metric] = DEFAULT | {
    "accuracy": accuracy,
    "node_accuracy_mean": node_accuracy_mean,
    "node_accuracy_min": node_accuracy_min,
    "node_accuracy_max": node_accuracy_max,
    "node_loss_mean": node_loss_mean,
    "node_loss_min": node_loss_min,
    "node_loss_max": node_loss_max,
}
"""For problems with test labels."""
