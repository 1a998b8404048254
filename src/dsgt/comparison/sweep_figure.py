"""A metric of a sweep against what varies."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from statistics import fmean
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dsgt.comparison.figure import legend, looks
from dsgt.comparison.method_runs import MethodRuns
from dsgt.paper_figure import AGREE, STYLE, panels, scale

LABELS = {
    "loss": "training loss",
    "accuracy": "test accuracy",
    "node_accuracy_min": "worst node's accuracy",
    "consensus": "consensus distance",
    "rounds_to_target": "rounds to loss {target}",
    "megabytes_to_target": "megabytes to loss {target}",
    "virtual_seconds_to_target": "virtual seconds to loss {target}",
    "speedup": "speedup over {fewest} nodes",
    "rounds_over_centralized": "rounds, over centralized",
}
LINEAR = {"accuracy", "node_accuracy_min"}
FAR = 4
"""Values of which the largest is so many times the smallest stand on a logarithmic axis."""


@mpl.rc_context(STYLE)
def figure(
    numbers: Sequence[dict[str, Any]],
    keys: Sequence[str],
    lines: Sequence[MethodRuns],
    metric: str,
    target: float | None,
    width: float | None,
) -> Figure:
    """Against the first of the keys, a panel for every value of the others."""
    x, *others = keys
    values = list(dict.fromkeys(row["at"][x] for row in numbers))
    shown = {row["line"].method for row in numbers if _seen(row, metric)}
    apart = list(dict.fromkeys(tuple(row["at"][key] for key in others) for row in numbers))
    drawn, axes = panels(len(apart), width, alike=True)
    places = _places(values)
    for panel, at in zip(axes, apart, strict=True):
        rows = [row for row in numbers if tuple(row["at"][key] for key in others) == at]
        for line, look in zip(lines, looks(lines), strict=True):
            if line.method not in shown:
                continue
            mine = [row for row in rows if row["line"].method == line.method and _seen(row, metric)]
            means = [fmean(row[metric]) for row in mine]
            # not below 0: the mean of equal numbers may be another in its last bit
            low = [max(0.0, m - min(row[metric])) for m, row in zip(means, mine, strict=True)]
            high = [max(0.0, max(row[metric]) - m) for m, row in zip(means, mine, strict=True)]
            where = [places[values.index(row["at"][x])] for row in mine]
            panel.errorbar(
                where, means, yerr=(low, high), label=_label(line, numbers), capsize=1.5, elinewidth=0.7, **look
            )
        if metric == "speedup" and x == "nodes":
            panel.plot(places, [v / min(values) for v in values], color="0.6", ls=":", zorder=0, label="ideal")
        panel.set(xlabel=x, title="\n".join(f"{key} {_short(v)}" for key, v in zip(others, at, strict=True)))
        _ticks(panel, places, values)
    for panel in axes:  # they have one scale
        scale(panel, metric not in LINEAR)
        panel.grid(alpha=0.3, which="both" if panel.get_yscale() == "log" else "major")
    reached, fewest = "" if target is None else f"{target:.3g}", min(row["at"].get("nodes", 0) for row in numbers)
    for panel in axes:
        if panel.get_subplotspec().is_first_col():  # type: ignore[union-attr]
            panel.set_ylabel(LABELS[metric].format(target=reached, fewest=fewest))
    legend(drawn, width)
    return drawn


def _label(line: MethodRuns, numbers: Sequence[dict[str, Any]]) -> str:
    """With its weights where they are not the same at all points."""
    rules = dict.fromkeys(row["line"].weights for row in numbers if row["line"].method == line.method)
    return line.title if len(rules) == 1 else f"{line.title} ({', '.join(rules)} weights)"


def _seen(row: dict[str, Any], metric: str) -> bool:
    """Nodes that agree have no distance that a logarithm shows."""
    return bool(row[metric]) and (metric != "consensus" or min(row[metric]) > AGREE)


def _places(values: Sequence[Any]) -> list[float]:
    """Numbers where they are; words beside each other, in their order."""
    if all(isinstance(v, Real) for v in values):
        return [float(v) for v in values]
    return [float(k) for k in range(len(values))]


def _ticks(panel: Axes, places: Sequence[float], values: Sequence[Any]) -> None:
    if places != [float(k) for k in range(len(values))] and min(places) > 0 and max(places) > FAR * min(places):
        panel.set_xscale("log")
    panel.set_xticks(places, [_short(v) for v in values])
    panel.set_xticks([], minor=True)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
