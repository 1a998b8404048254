"""The tables of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dsgt.comparison.measured import COSTS
from dsgt.comparison.method_runs import MethodRuns, measured, reached_at_once
from dsgt.text import percent, short, with_spread

COLUMNS: dict[str, tuple[str, str, Callable[[float], str]]] = {
    "accuracy": ("accuracy", "test accuracy of the mean model", percent),
    "node_accuracy_min": ("worst node", "test accuracy of the worst node", percent),
    "consensus": (
        "consensus",
        "how far a node's model is from the mean model, root mean square",
        lambda v: short(v, 3),
    ),
    "megabytes": ("MB", "megabytes sent by all nodes together", lambda v: short(v, 4)),
    "virtual_seconds": ("virtual s", "seconds on the virtual clock", lambda v: short(v, 4)),
}


@dataclass(frozen=True)
class Column:
    heading: str
    meaning: str
    cells: list[str]
    best: frozenset[int] = frozenset()
    """The lines that no other line beats, as far as the digits shown tell."""


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
            _best([-line.loss for line in lines]),
        ),
    ]
    rules = [line.weights for line in lines]
    if len({line.weights for line in lines if not line.centralized}) > 1:
        columns.insert(0, Column("weights", "not the same for all: part of a difference may be theirs", rules))
    for key in measured(lines, list(COLUMNS)):
        heading, meaning, form = COLUMNS[key]
        finals = [line.final(key) if line.converged else None for line in lines]
        cells = ["–" if value is None else form(value) for value in finals]
        best = _best([-math.inf if v is None else round(v, 3) for v in finals]) if "accuracy" in key else frozenset()
        columns.append(Column(heading, meaning, cells, best))
    return columns


def costs(lines: Sequence[MethodRuns], target: float | None) -> list[Column]:
    """What it takes each method until its loss is first at the target."""
    if target is None or reached_at_once(lines, target):
        return []
    columns = []
    for key in measured(lines, list(COSTS)):
        reached = [line.at_target(target, key) for line in lines]
        cells = ["never" if value is None else short(value, 3) for value in reached]
        best = _best([-math.inf if value is None else -float(f"{value:.3g}") for value in reached])
        heading = COSTS[key].heading
        columns.append(Column(heading, f"{heading} until the loss is {short(target)}", cells, best))
    return columns


def _best(values: Sequence[float]) -> frozenset[int]:
    """Where the largest are, if there is anything to choose from."""
    finite = {value for value in values if math.isfinite(value)}
    return frozenset(k for k, value in enumerate(values) if len(finite) > 1 and value == max(finite))
