"""The runs of one method, and what they say at its best learning rate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dsgt.comparison.measured import Row

Runs = dict[int, list[Row]]
"""The rows of every seed."""


@dataclass(frozen=True)
class MethodRuns:
    """A method at every learning rate of the grid; whatever is asked of it is about the best of them."""

    method: str
    grid: dict[float, Runs]
    """The runs that choose the learning rate, by learning rate."""
    centralized: bool = False
    """Whether all nodes average with all, so that it is a reference and no rival."""
    reported: dict[float, Runs] | None = None
    """The runs with the other seeds, which count, at the learning rates that were chosen; None: those of the grid."""
    weights: str = ""
    title: str = ""
    """How a paper calls the method."""

    @cached_property
    def lr(self) -> float:
        """The learning rate with the lowest final loss in the grid, averaged over the seeds there, of those at which no
        run that counts has diverged."""
        ranked = sorted(self.grid, key=lambda lr: statistics.fmean(final_losses(self.grid[lr])))
        done = [lr for lr in ranked if lr in self._counting]
        stable = [lr for lr in done if all(map(math.isfinite, final_losses(self._counting[lr])))]
        return (stable or done or ranked)[0]

    @property
    def edge(self) -> str:
        """``largest`` or ``smallest`` where the best learning rate is this of several that were tried; else empty."""
        if len(self.grid) < 2 or not self.converged:
            return ""
        return "largest" if self.lr == max(self.grid) else "smallest" if self.lr == min(self.grid) else ""

    @property
    def _counting(self) -> dict[float, Runs]:
        return self.grid if self.reported is None else self.reported

    @property
    def runs(self) -> list[list[Row]]:
        """The rows of each seed."""
        return list(self._counting.get(self.lr, self.grid[self.lr]).values())

    @cached_property
    def losses(self) -> list[float]:
        """The final loss of each seed, infinite where it diverged."""
        return final_losses(self._counting.get(self.lr, self.grid[self.lr]))

    @property
    def loss(self) -> float:
        return statistics.fmean(self.losses)

    @property
    def spread(self) -> float:
        """The standard deviation of the loss over the seeds; no number for one seed."""
        return deviation(self.losses)

    @property
    def converged(self) -> bool:
        """With every seed."""
        return all(map(math.isfinite, self.losses))

    @property
    def ranked(self) -> bool:
        """Whether it is a rival of the others."""
        return self.converged and not self.centralized

    @property
    def diverged_at(self) -> list[float]:
        """The learning rates at which a seed diverged."""
        both = [*self.grid.items(), *self._counting.items()]
        return sorted({lr for lr, runs in both if not all(map(math.isfinite, final_losses(runs)))})

    def finals(self, key: str) -> list[float]:
        """The last value of a metric for each seed; empty where it was not measured, or is no number, for all."""
        last = [rows[-1].get(key) for rows in self.runs]
        return [float(v) for v in last if v is not None] if all(map(_finite, last)) else []

    def final(self, key: str) -> float | None:
        """Its mean over the seeds."""
        values = self.finals(key)
        return statistics.fmean(values) if values else None

    def each_at_target(self, target: float, key: str) -> list[float]:
        """A metric where the loss is first at the target, on a straight line between two measurements, for every seed;
        empty where one never was there."""
        first = [_where(rows, target, key) for rows in self.runs]
        return [] if None in first else [v for v in first if v is not None]

    def at_target(self, target: float, key: str) -> float | None:
        """Its mean over the seeds."""
        values = self.each_at_target(target, key)
        return statistics.fmean(values) if values else None

    @cached_property
    def measured_rounds(self) -> list[list[Row]]:
        """The rows of the seeds, round after round: from where one has diverged, or ended, a mean over the others
        would be one over fewer, so there it ends."""
        runs = self.runs
        rounds = {tuple(row["round"] for row in rows) for rows in runs}
        if len(rounds) > 1 and self.converged and runs[0][-1].get("virtual_seconds"):
            return _at_same_times(runs)
        by_round: dict[int, list[Row]] = {}
        for rows in runs:
            for row in rows:
                by_round.setdefault(row["round"], []).append(row)
        whole = (rows for _, rows in sorted(by_round.items()) if len(rows) == len(self.runs))
        return [rows for rows in whole if all(_finite(row["loss"]) for row in rows)]

    def curve(self, key: str) -> tuple[list[float | None], list[float | None], list[float | None]]:
        """The mean, least and largest value over the seeds in each measured round; None where one has none."""
        values = [[row.get(key) for row in rows] for rows in self.measured_rounds]
        numbers = [some if all(map(_finite, some)) else None for some in values]

        def over(what: Callable[[Any], float]) -> list[float | None]:
            return [None if some is None else float(what(some)) for some in numbers]

        return over(statistics.fmean), over(min), over(max)


def _where(rows: list[Row], target: float, key: str) -> float | None:
    """The value of a metric at which the loss is first at the target."""
    there = next((i for i, row in enumerate(rows) if row["loss"] <= target), None)
    if there is None or (end := rows[there].get(key)) is None:
        return None
    before = rows[there - 1] if there else rows[there]
    start, fall = before.get(key), before["loss"] - rows[there]["loss"]
    if start is None or not 0 < fall < math.inf:
        return float(end)
    share = (before["loss"] - target) / fall
    return float(start + share * (end - start))


def deviation(values: Sequence[float]) -> float:
    """Of a sample; no number for less than two, or where a run diverged."""
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else math.nan


def _at_same_times(runs: Sequence[list[Row]]) -> list[list[Row]]:
    """Where seeds take other rounds for the same virtual seconds: at those of the first, and for the others on the
    straight line between two measurements."""

    def at(rows: list[Row], time: float, keys: Sequence[str]) -> Row:
        found: Row = {}
        for key in keys:
            known = [row for row in rows if _finite(row.get(key))]
            if known:
                times, values = [row["virtual_seconds"] for row in known], [row[key] for row in known]
                found[key] = float(np.interp(time, times, values))
        return found

    keys = [key for key, value in runs[0][-1].items() if isinstance(value, int | float)]
    return [[row, *(at(rows, row["virtual_seconds"], keys) for rows in runs[1:])] for row in runs[0]]


def final_losses(runs: Runs) -> list[float]:
    """Of every seed; infinite where it diverged."""
    last = [rows[-1]["loss"] for rows in runs.values()]
    return [float(loss) if _finite(loss) else math.inf for loss in last]


def measured(lines: Sequence[MethodRuns], keys: Sequence[str]) -> list[str]:
    """Those of the keys that a run at a best learning rate has values of."""
    rows = [row for line in lines for run in line.runs for row in run]
    return [key for key in keys if any(row.get(key) is not None for row in rows)]


def reached_at_once(lines: Sequence[MethodRuns], target: float) -> bool:
    """Whether the target is no better than the start, so that the way there tells nothing."""
    return all(run[0]["loss"] <= target for line in lines if line.converged for run in line.runs)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
