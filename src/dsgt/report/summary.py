"""What a comparison found, in the form that the page's parts share: one line per method at its best learning rate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dsgt.algorithms import ALGORITHMS

if TYPE_CHECKING:
    from dsgt.comparison import Comparison

Rows = list[dict[str, Any]]
Runs = dict[int, Rows]
"""The rows of every seed."""


@dataclass(frozen=True)
class Line:
    """A method, and its runs at every learning rate."""

    method: str
    lr: float
    """The best."""
    grid: dict[float, Runs]
    centralized: bool = False

    @property
    def runs(self) -> Runs:
        return self.grid[self.lr]

    @cached_property
    def losses(self) -> list[float]:
        """The final loss of each seed, infinite where it diverged."""
        return final_losses(self.runs)

    @property
    def loss(self) -> float:
        return statistics.fmean(self.losses)

    @property
    def spread(self) -> float:
        """The standard deviation over the seeds."""
        return statistics.pstdev(self.losses) if self.converged else math.inf

    @property
    def converged(self) -> bool:
        return all(math.isfinite(loss) for loss in self.losses)

    @property
    def diverged_at(self) -> list[float]:
        """The learning rates at which a seed diverged."""
        return [lr for lr, runs in self.grid.items() if not all(math.isfinite(v) for v in final_losses(runs))]

    def finals(self, key: str) -> list[float]:
        """The last value of a metric for each seed; empty where it was not measured, or is no number, for all."""
        last = [rows[-1].get(key) for rows in self.runs.values()]
        numbers = [float(value) for value in last if value is not None and math.isfinite(value)]
        return numbers if len(numbers) == len(last) else []

    def final(self, key: str) -> float | None:
        """Its mean over the seeds."""
        values = self.finals(key)
        return statistics.fmean(values) if values else None

    def at_target(self, target: float, key: str) -> float | None:
        """A metric when the loss was first seen at the target, averaged over the seeds; None where one never was."""
        first = [next((row.get(key) for row in rows if row["loss"] <= target), None) for rows in self.runs.values()]
        return None if None in first else statistics.fmean(v for v in first if v is not None)


def final_losses(runs: Runs) -> list[float]:
    last = [rows[-1]["loss"] for rows in runs.values()]
    return [math.inf if loss is None or math.isnan(loss) else loss for loss in last]


def summarise(comparison: Comparison) -> list[Line]:
    grids: dict[str, dict[float, Runs]] = {}
    for (method, lr), runs in comparison.runs.items():
        grids.setdefault(method, {})[lr] = dict(sorted(runs.items()))
    return [Line(method, comparison.best_lr(method), grid, is_centralized(method)) for method, grid in grids.items()]


def is_centralized(method: str) -> bool:
    return method in ALGORITHMS and ALGORITHMS[method]().needs.average


def measured(lines: Sequence[Line], keys: Sequence[str]) -> list[str]:
    """Those of the keys that a run at a best learning rate has values of."""
    return [
        key
        for key in keys
        if any(row.get(key) is not None for line in lines for rows in line.runs.values() for row in rows)
    ]
