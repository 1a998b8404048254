"""What figures for a paper have in common: width, fonts that stay text, colours, scales."""

from __future__ import annotations

import io
import math
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

LABELS = {"loss": "training loss", "node_accuracy_min": "worst node's accuracy", "consensus": "consensus distance"}
AGREE = 1e-6
"""Below this distance nodes agree; a logarithmic axis cannot show it."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's: told apart with every kind of colour blindness. The seventh method has the first, dotted, and the
second marker."""
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.2,
    "pdf.fonttype": 42,  # outlines that a journal's checker takes, not Type 3
    "ps.fonttype": 42,
    "savefig.dpi": 300,
}
WIDTH = 7.2
"""Inches: of a page with two columns, by default."""
SIDE_BY_SIDE = 2.0
"""Inches that a panel needs beside another."""
STACKED = 1.6
"""Inches that a panel above others is high at the most: three and a legend fit on a page with text below them."""


class PaperFigure(Figure):
    """A figure that is saved in this style, whatever that of the session is."""

    def savefig(self, *args: Any, **options: Any) -> None:
        with mpl.rc_context(STYLE):
            super().savefig(*args, **options)

    def _repr_png_(self) -> bytes:
        """What a notebook shows, whatever its backend."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=100)
        return picture.getvalue()


def panels(count: int, width: float | None = None, *, alike: bool = False) -> tuple[PaperFigure, list[Axes]]:
    """As many panels side by side as fit, ``alike`` with one scale. Call it in ``STYLE``."""
    wide = WIDTH if width is None else width
    if isinstance(wide, str) or not 0 < wide < math.inf:
        raise ValueError(f"the width of a figure is {width!r}; give it in inches, as in 3.5")
    rows = -(-count // max(1, int(wide / SIDE_BY_SIDE)))
    columns = -(-count // rows)  # four panels are two rows of two, not three and one
    high = 0.66 * wide / columns if rows == 1 else min(0.66 * wide / columns, STACKED)
    drawn = PaperFigure(figsize=(wide, 0.45 + rows * (0.35 + high)), layout="constrained")
    axes: list[Axes] = list(drawn.subplots(rows, columns, squeeze=False, sharey=alike).flat)
    for empty in axes[count:]:
        drawn.delaxes(empty)
    return drawn, axes[:count]


def scale(panel: Axes, log: bool) -> None:
    """A logarithm where there is something to take it of; within a few decades ticks are numbers as people write them,
    and more than two."""
    values = [float(v) for line in panel.lines for v in np.asarray(line.get_ydata(), dtype=float) if np.isfinite(v)]
    if not log or not values or min(values) <= 0 or max(values) < 1.001 * min(values):
        return
    panel.set_yscale("log")
    low, high = sorted(panel.get_ylim())
    if high < 1000 * low:
        first = math.floor(math.log10(low))
        rounded = [float(f"{m}e{e}") for e in range(first, first + 5) for m in (1, 2, 5)]
        near = rounded if sum(low <= v <= high for v in rounded) > 2 else MaxNLocator(4).tick_values(low, high)
        ticks = [v for v in near if low <= v <= high]
        panel.yaxis.set_major_locator(FixedLocator(ticks))
        panel.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
        panel.yaxis.set_minor_locator(NullLocator())
