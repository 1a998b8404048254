"""The numbers behind the figures, as small columns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from dsgt.comparison.measured import APART, AXES, PANELS
from dsgt.comparison.method_runs import MethodRuns, final_losses, measured
from dsgt.report.numbers import column, rounded


def curves(lines: Sequence[MethodRuns]) -> dict[str, Any]:
    """Every method at its best learning rate: where it was measured, and the mean and range over the seeds there."""
    axes, panels = measured(lines, list(AXES)), measured(lines, list(PANELS))
    if all(line.centralized for line in lines):  # one model has no distance from itself
        panels = [key for key in panels if key != "consensus"]
    ranges = {key: [_range(line, key) for line in lines] for key in panels}
    return {
        "axes": {key: AXES[key] for key in axes},
        "panels": [
            {"key": key, "title": PANELS[key].title, "log": PANELS[key].log, "bare": _bare(ranges[key])}
            for key in panels
        ],
        "lines": [
            {
                "x": {key: column(line.curve(key)[0]) for key in axes},
                "y": {key: ranges[key][i] for key in panels},
            }
            for i, line in enumerate(lines)
        ],
    }


def _range(line: MethodRuns, key: str) -> dict[str, list[float | None]]:
    mean, low, high = (column(values) for values in line.curve(key))
    return {"mean": mean, "low": low, "high": high} if len(line.runs) > 1 else {"mean": mean}


def _bare(ranges: Sequence[dict[str, list[float | None]]]) -> bool:
    """Whether nobody was measured twice, as where all diverge at once: points make no line."""
    return all(sum(v is not None for v in one["mean"]) < 2 for one in ranges)


def apart(lines: Sequence[MethodRuns]) -> list[dict[str, Any] | None]:
    """Every node's distance from the mean model in each measured round of a method's first seed; None where that was
    not measured, or all nodes have one model, be it only until they diverge."""
    found: list[dict[str, Any] | None] = []
    for line in lines:
        rows = [row for row in line.runs[0] if f"{APART}0" in row]
        nodes = sum(key.startswith(APART) for key in rows[0]) if rows else 0
        values = [column(row[f"{APART}{i}"] for i in range(nodes)) for row in rows]
        told = any(v for one in values for v in one)
        found.append({"round": [row["round"] for row in rows], "values": values} if told else None)
    return [None if line.centralized else one for line, one in zip(lines, found, strict=True)]


def grid(lines: Sequence[MethodRuns]) -> list[dict[str, Any]]:
    """The final loss at every learning rate, and how many seeds diverged there."""
    found = []
    for line in lines:
        losses = {lr: final_losses(line.grid[lr]) for lr in sorted(line.grid)}
        found.append(
            {
                "lr": [float(lr) for lr in losses],
                "mean": [rounded(statistics.fmean(v)) for v in losses.values()],
                "low": [rounded(min(v)) for v in losses.values()],
                "high": [rounded(max(v)) for v in losses.values()],
                "diverged": [sum(not math.isfinite(x) for x in v) for v in losses.values()],
                "seeds": len(line.grid[line.lr]),
                "best": list(losses).index(line.lr) if line.converged else None,
            }
        )
    return found
