"""A comparison as a figure for a paper."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from dsgt.comparison.measured import PANELS
from dsgt.comparison.method_runs import MethodRuns

SHOWN = ("loss", "node_accuracy_min", "consensus")
AGREE = 1e-6
"""Below this distance nodes agree; a logarithmic axis cannot show it."""


def figure(lines: Sequence[MethodRuns]) -> Figure:
    """Loss, accuracy and disagreement against epochs; bands are the range over the seeds."""
    drawn = Figure(figsize=(11, 3.4), layout="constrained")
    colours = _colours(lines)
    for axes, key in zip(drawn.subplots(1, 3), SHOWN, strict=True):
        title, log = PANELS[key]
        for line, colour in zip(lines, colours, strict=True):
            if not line.converged:
                axes.plot([], [], color=colour, ls=":", label=f"{line.method}, diverged")
                continue
            if key == "consensus" and line.centralized:
                continue  # one model has no distance from itself, only rounding
            epochs = _numbers(line.curve("epochs")[0], log=False)
            mean, low, high = (_numbers(values, log) for values in line.curve(key))
            name = f"{line.method}, lr {line.lr:g}"
            axes.plot(epochs, mean, label=name, color=colour, ls="--" if line.centralized else "-")
            axes.fill_between(epochs, low, high, color=colour, alpha=0.15, linewidth=0)
        shown = any(math.isfinite(v) for line in axes.lines for v in line.get_ydata())
        axes.set(xlabel="epochs", ylabel=title.split(" (")[0], yscale="log" if log and shown else "linear")
        axes.grid(alpha=0.3, which="both" if log else "major")
    drawn.axes[0].legend(frameon=False)
    return drawn


def _numbers(values: Sequence[float | None], log: bool) -> list[float]:
    """NaN leaves a gap in the line."""
    return [math.nan if v is None or (log and v <= AGREE) else v for v in values]


def _colours(lines: Sequence[MethodRuns]) -> list[str]:
    """One for each method; the centralized reference is grey."""
    rivals = [line.method for line in lines if not line.centralized]
    return ["0.35" if line.centralized else f"C{rivals.index(line.method)}" for line in lines]
