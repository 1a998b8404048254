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


def measurable(problem: Problem, *, nodes: bool = True, every: int = 1, last: int = 0) -> dict[str, metrics.Metric]:
    """Those of them that this problem has: an accuracy needs labelled test samples. ``nodes``: also of each node.

    What needs the test samples is measured every ``every`` rounds, and after the last."""
    test = getattr(problem, "test", None)
    labelled = isinstance(test, Samples) and test.labelled
    wanted = {name: metric for name, metric in MEASURED.items() if labelled or "accuracy" not in name}
    return {
        name: metrics.Seldom(metric, every, last) if "accuracy" in name else metric
        for name, metric in wanted.items()
        if nodes or not name.startswith("node_")
    }


APART = "apart_"
"""Before the number of a node: how far its model is from the mean model."""
APART_LIMIT = 200
"""More nodes than a drawing shows are not measured one by one."""


def apart(problem: Problem) -> dict[str, metrics.Metric]:
    """Every node's own distance from the mean model, for the drawing of the network."""

    def of(i: int) -> metrics.Metric:
        return lambda s: float(s.node_distances[i])

    return {f"{APART}{i}": of(i) for i in range(problem.nodes)} if problem.nodes <= APART_LIMIT else {}


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


AXES = {
    "round": "rounds",
    "epochs": "epochs",
    "megabytes": "megabytes sent",
    "virtual_seconds": "virtual seconds",
}
"""What a curve may be drawn against."""


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
