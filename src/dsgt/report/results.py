"""The table of results, and what a reader should know beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dsgt.report.numbers import listed, percent, short, with_spread
from dsgt.report.summary import Line, measured

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

COSTS = {"round": "rounds", "epochs": "epochs", "megabytes": "MB", "virtual_seconds": "virtual s"}


@dataclass(frozen=True)
class Column:
    heading: str
    meaning: str
    cells: list[str]
    best: frozenset[int] = frozenset()
    """The lines that no other line beats, as far as the digits shown tell."""


def table(lines: Sequence[Line]) -> list[Column]:
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
    for key in measured(lines, list(COLUMNS)):
        heading, meaning, form = COLUMNS[key]
        finals = [line.final(key) if line.converged else None for line in lines]
        cells = ["–" if value is None else form(value) for value in finals]
        best = _best([-math.inf if v is None else round(v, 3) for v in finals]) if "accuracy" in key else frozenset()
        columns.append(Column(heading, meaning, cells, best))
    return columns


def costs(lines: Sequence[Line], target: float | None) -> list[Column]:
    """What it takes each method until its loss is first at the target."""
    if target is None or reached_at_once(lines, target):
        return []
    columns = []
    for key in measured(lines, list(COSTS)):
        reached = [line.at_target(target, key) for line in lines]
        cells = ["never" if value is None else short(value, 3) for value in reached]
        best = _best([-math.inf if value is None else -float(f"{value:.3g}") for value in reached])
        columns.append(Column(COSTS[key], f"{COSTS[key]} until the loss is {short(target)}", cells, best))
    return columns


def reached_at_once(lines: Sequence[Line], target: float) -> bool:
    """Whether the target is no better than the start, so that the way there tells nothing."""
    return all(rows[0]["loss"] <= target for line in lines if line.converged for rows in line.runs.values())


def _best(values: Sequence[float]) -> frozenset[int]:
    """Where the largest are, if there is anything to choose from."""
    finite = {value for value in values if math.isfinite(value)}
    return frozenset(k for k, value in enumerate(values) if len(finite) > 1 and value == max(finite))


def notes(lines: Sequence[Line], asked: str, ran_with: dict[str, str], target: float | None) -> list[str]:
    """Where the numbers need a word: weights that were not those asked for, and rates at the edge of the grid."""
    found = []
    for line in lines:
        rule = ran_with.get(line.method)
        if rule and rule not in (asked, "all", "push", "file"):
            found.append(f"{line.method} may not use {asked} weights here, so it ran with {rule} ones.")
    for end, which, better in ((max, "largest", "larger"), (min, "smallest", "smaller")):
        edge = [line.method for line in lines if line.converged and len(line.grid) > 1 and line.lr == end(line.grid)]
        if edge:
            found.append(f"Best at the {which} learning rate tried, so a {better} one may be better: {listed(edge)}.")
    if target is not None and math.isfinite(target) and reached_at_once(lines, target):
        found.append(
            f"A loss of {short(target)} is no better than the start, so what it takes to get there is not shown."
        )
    return found
