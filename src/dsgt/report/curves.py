"""The numbers behind the figures, as small columns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from dsgt.report.numbers import column, rounded
from dsgt.report.summary import Line, final_losses, measured

AXES = {
    "round": "rounds",
    "epochs": "epochs",
    "megabytes": "megabytes sent",
    "virtual_seconds": "virtual seconds",
}

PANELS = {
    "loss": ("training loss of the mean model", True),
    "accuracy": ("test accuracy of the mean model", False),
    "node_accuracy_min": ("test accuracy of the worst node", False),
    "consensus": ("distance from the mean model (consensus)", True),
}
"""Title, and whether a logarithm makes sense."""


def curves(lines: Sequence[Line]) -> dict[str, Any]:
    """Every method at its best learning rate: where it was measured, and the mean and range over the seeds there."""
    axes, panels = measured(lines, list(AXES)), measured(lines, list(PANELS))
    if all(line.centralized for line in lines):  # one model has no distance from itself
        panels = [key for key in panels if key != "consensus"]
    return {
        "axes": {key: AXES[key] for key in axes},
        "panels": [{"key": key, "title": PANELS[key][0], "log": PANELS[key][1]} for key in panels],
        "lines": [_curve(line, axes, panels) for line in lines],
    }


def _curve(line: Line, axes: Sequence[str], panels: Sequence[str]) -> dict[str, Any]:
    by_round: dict[int, list[dict[str, Any]]] = {}
    for rows in line.runs.values():
        for row in rows:
            by_round.setdefault(row["round"], []).append(row)
    # From where one seed has diverged, or ended, a mean over the others would be one over fewer.
    at = [rows for _, rows in sorted(by_round.items()) if len(rows) == len(line.runs) and _finite(rows, "loss")]
    return {
        "x": {key: column(_mean(rows, key) for rows in at) for key in axes},
        "y": {
            key: {
                "mean": column(_mean(rows, key) for rows in at),
                **(
                    {
                        "low": column(_of(rows, key, min) for rows in at),
                        "high": column(_of(rows, key, max) for rows in at),
                    }
                    if len(line.runs) > 1
                    else {}
                ),
            }
            for key in panels
        },
    }


def _finite(rows: Sequence[dict[str, Any]], key: str) -> bool:
    return all(row.get(key) is not None and math.isfinite(row[key]) for row in rows)


def _mean(rows: Sequence[dict[str, Any]], key: str) -> float | None:
    return _of(rows, key, statistics.fmean)


def _of(rows: Sequence[dict[str, Any]], key: str, what: Any) -> float | None:
    return float(what([row[key] for row in rows])) if _finite(rows, key) else None


def grid(lines: Sequence[Line]) -> list[dict[str, Any]]:
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
                "seeds": len(line.runs),
                "best": list(losses).index(line.lr) if line.converged else None,
            }
        )
    return found
