"""A comparison as a figure for a paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from dsgt.comparison.result import Comparison

PANELS = [
    ("loss", "training loss of the mean model", "log"),
    ("node_accuracy_min", "test accuracy of the worst node", "linear"),
    ("consensus", "distance from the mean model", "log"),
]
REFERENCE = "sgd"
AGREE = 1e-6
"""Below this distance nodes agree; a logarithmic axis cannot show it."""


def picture(found: Comparison) -> Figure:
    """Loss, accuracy and disagreement against epochs; bands are the range over the seeds."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for axes, (key, label, scale) in zip(figure.subplots(1, 3), PANELS, strict=True):
        for method, colour in zip(found.settings.methods, _colours(found.settings.methods), strict=True):
            if found.diverged(method):
                axes.plot([], [], color=colour, ls=":", label=f"{method}, diverged")
                continue
            epochs, *curves = found.curve(method, key)
            if scale == "log":  # NaN leaves a gap in the line
                curves = [[v if v > AGREE else math.nan for v in c] for c in curves]
            mean, low, high = curves
            name = f"{method}, lr {found.best_lr(method):g}"
            axes.plot(epochs, mean, label=name, color=colour, ls="--" if method == REFERENCE else "-")
            axes.fill_between(epochs, low, high, color=colour, alpha=0.15, linewidth=0)
        shown = any(math.isfinite(v) for line in axes.lines for v in line.get_ydata())
        axes.set(xlabel="epochs", ylabel=label, yscale=scale if shown else "linear")
        axes.grid(alpha=0.3, which="both" if scale == "log" else "major")
    figure.axes[0].legend(frameon=False)
    return figure


def _colours(methods: Sequence[str]) -> list[str]:
    """One for each method; the centralized reference is grey."""
    rest = [method for method in methods if method != REFERENCE]
    return ["0.35" if method == REFERENCE else f"C{rest.index(method)}" for method in methods]
