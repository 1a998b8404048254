"""What is measured in the runs of a comparison, and how it is called where it is shown."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from dsgt import metrics
from dsgt.data.samples import Samples
from dsgt.problems.base import Problem

Row: TypeAlias = dict[str, Any]

MEASURED: dict[str, metrics.Metric] = {
    "epochs": metrics.epochs,
    "megabytes": metrics.megabytes,
    "virtual_seconds": metrics.virtual_seconds,
    "loss": metrics.loss,
    "consensus": metrics.consensus,
    "accuracy": metrics.accuracy,
    "node_accuracy_mean": metrics.node_accuracy_mean,
    "node_accuracy_min": metrics.node_accuracy_min,
}
"""Nothing that a clock on the wall tells: the same settings give the same rows, to the last bit."""

LOSS = {key: MEASURED[key] for key in ("epochs", "loss")}
"""All that is asked of a run that tunes a learning rate."""


def measurable(problem: Problem) -> dict[str, metrics.Metric]:
    """Those of them that this problem has: an accuracy needs labelled test samples."""
    test = getattr(problem, "test", None)
    labelled = isinstance(test, Samples) and test.labelled
    return {name: metric for name, metric in MEASURED.items() if labelled or "accuracy" not in name}


class Panel(NamedTuple):
    """Of a figure."""

    title: str
    log: bool


PANELS = {
    "loss": Panel("training loss of the mean model", log=True),
    "accuracy": Panel("test accuracy of the mean model", log=False),
    "node_accuracy_min": Panel("test accuracy of the worst node", log=False),
    "consensus": Panel("distance from the mean model (consensus)", log=True),
}


class Cost(NamedTuple):
    """What it takes to reach the target: its column of the table is ``name_to_target``."""

    name: str
    heading: str


COSTS = {
    "epochs": Cost("epochs", "epochs"),
    "round": Cost("rounds", "rounds"),
    "megabytes": Cost("megabytes", "MB"),
    "virtual_seconds": Cost("virtual_seconds", "virtual s"),
}
