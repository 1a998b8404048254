"""The numbers behind the figures, as small columns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from dsgt.comparison.measured import PANELS
from dsgt.comparison.method_runs import MethodRuns, final_losses, measured
from dsgt.report.numbers import column, rounded

AXES = {
    "round": "rounds",
    "epochs": "epochs",
    "megabytes": "megabytes sent",
    "virtual_seconds": "virtual seconds",
}


def curves(lines: Sequence[MethodRuns]) -> dict[str, Any]:
    """Every method at its best learning rate: where it was measured, and the mean and range over the seeds there."""
    axes, panels = measured(lines, list(AXES)), measured(lines, list(PANELS))
    if all(line.centralized for line in lines):  # one model has no distance from itself
        panels = [key for key in panels if key != "consensus"]
    return {
        "axes": {key: AXES[key] for key in axes},
        "panels": [{"key": key, "title": PANELS[key].title, "log": PANELS[key].log} for key in panels],
        "lines": [
            {
                "x": {key: column(line.curve(key)[0]) for key in axes},
                "y": {key: _range(line, key) for key in panels},
            }
            for line in lines
        ],
    }


def _range(line: MethodRuns, key: str) -> dict[str, list[float | None]]:
    mean, low, high = (column(values) for values in line.curve(key))
    return {"mean": mean, "low": low, "high": high} if len(line.runs) > 1 else {"mean": mean}


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
