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
    "consensus": ("consensus", "how far a node's model is from the mean model, root mean square", lambda v: short(v, 3)),
    "megabytes": ("MB", "megabytes sent by all nodes together", lambda v: short(v, 4)),
    "virtual_seconds": ("virtual s", "seconds on the virtual clock", lambda v: short(v, 4)),
}

TO_TARGET = {"round": "rounds", "epochs": "epochs", "megabytes": "MB", "virtual_seconds": "virtual s"}


@dataclass(frozen=True)
class Column:
    heading: str
    meaning: str
    cells: list[str]
    group: str = ""
    best: frozenset[int] = frozenset()
    """The lines that no other line beats, as far as the digits shown tell."""


def table(lines: Sequence[Line], target: float | None = None) -> list[Column]:
    """One column per metric that was measured; one cell per method, in the order of the lines."""
    columns = [
        Column("lr", "the best learning rate of the grid", [f"{line.lr:g}" if line.converged else "–" for line in lines]),
        Column(
            "training loss",
            "of the mean model; ± is the standard deviation over the seeds",
            [with_spread(line.loss, line.spread) if line.converged else "diverged" for line in lines],
            best=_best([-line.loss for line in lines]),
        ),
    ]
    for key in measured(lines, list(COLUMNS)):
        heading, meaning, form = COLUMNS[key]
        finals = [line.final(key) if line.converged else None for line in lines]
        cells = ["–" if value is None else form(value) for value in finals]
        best = _best([-math.inf if v is None else round(v, 3) for v in finals]) if "accuracy" in key else frozenset()
        columns.append(Column(heading, meaning, cells, best=best))
    if target is not None:
        group = f"to reach a loss of {short(target)}"
        for key in measured(lines, list(TO_TARGET)):
            reached = [line.at_target(target, key) for line in lines]
            cells = ["not reached" if value is None else short(value, 3) for value in reached]
            columns.append(Column(TO_TARGET[key], f"{TO_TARGET[key]} until the loss is {short(target)}", cells, group))
    return columns


def _best(values: Sequence[float]) -> frozenset[int]:
    """Where the largest are, if there is anything to choose from."""
    finite = [value for value in values if math.isfinite(value)]
    return frozenset(k for k, value in enumerate(values) if len(finite) > 1 and value == max(finite))


def notes(lines: Sequence[Line], asked: str, ran_with: dict[str, str]) -> list[str]:
    """Where the numbers need a word: weights that were not those asked for, and rates at the edge of the grid."""
    found = []
    for line in lines:
        rule = ran_with.get(line.method)
        if rule and rule not in (asked, "all", "push", "file"):
            found.append(f"{line.method} may not use the weights asked for ({asked}): it ran with {rule}.")
    edge = [line.method for line in lines if line.converged and len(line.grid) > 1 and line.lr == max(line.grid)]
    if edge:
        are = "was" if len(edge) == 1 else "were"
        found.append(f"{listed(edge)} {are} best at the largest learning rate tried: a larger one may be better.")
    return found
