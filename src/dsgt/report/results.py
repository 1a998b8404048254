"""The tables of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from dsgt.comparison.measured import COSTS
from dsgt.comparison.method_runs import MethodRuns, deviation, measured, reached_at_once
from dsgt.comparison.paired import leaders
from dsgt.text import percent, short, with_spread

COLUMNS: dict[str, tuple[str, str, Callable[[float, float], str]]] = {
    "accuracy": ("accuracy", "test accuracy of the mean model", percent),
    "node_accuracy_min": ("worst node", "test accuracy of the worst node", percent),
    "consensus": (
        "consensus",
        "how far a node's model is from the mean model, root mean square",
        lambda v, _: short(v, 3),
    ),
    "megabytes": ("MB", "megabytes sent by all nodes together", lambda v, _: short(v, 4)),
    "virtual_seconds": ("virtual s", "seconds on the virtual clock", lambda v, _: short(v, 4)),
}
"""Of the metrics: heading, meaning, and how its mean and standard deviation over the seeds are written."""
NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Column:
    heading: str
    meaning: str
    cells: list[str]
    best: frozenset[int] = NOBODY
    """The lines that the seeds do not tell from the best one; none where they tell nobody from it."""


def table(lines: Sequence[MethodRuns]) -> list[Column]:
    """One column per metric that was measured; one cell per method, in the order of the lines."""
    columns = [
        Column(
            "lr", "the best learning rate of the grid", [f"{line.lr:g}" if line.converged else "–" for line in lines]
        ),
        Column(
            "training loss",
            "of the mean model; ± is the standard deviation over the seeds",
            [with_spread(line.loss, line.spread) if line.converged else "diverged" for line in lines],
            leaders(lines, [line.losses for line in lines]),
        ),
    ]
    rules = [line.weights for line in lines]
    if len({line.weights for line in lines if not line.centralized}) > 1:
        columns.insert(0, Column("weights", "not the same for all: part of a difference may be theirs", rules))
    for key in measured(lines, list(COLUMNS)):
        heading, meaning, form = COLUMNS[key]
        finals = [line.finals(key) if line.converged else [] for line in lines]
        cells = [form(fmean(values), deviation(values)) if values else "–" for values in finals]
        best = leaders(lines, finals, largest=True) if "accuracy" in key else NOBODY
        columns.append(Column(heading, meaning, cells, best))
    return columns


def costs(lines: Sequence[MethodRuns], target: float | None) -> list[Column]:
    """What it takes each method until its loss is first at the target."""
    if target is None or reached_at_once(lines, target):
        return []
    columns = []
    for key in measured(lines, list(COSTS)):
        reached = [line.each_at_target(target, key) for line in lines]
        cells = [short(fmean(values), 3) if values else "never" for values in reached]
        best = leaders(lines, reached)
        heading = COSTS[key].heading
        columns.append(Column(heading, f"{heading} until the loss is {short(target)}", cells, best))
    return columns
