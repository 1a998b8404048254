"""Figures for a paper: as wide as its column, in colours that everybody tells apart, with fonts that stay text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from dsgt.comparison.measured import AXES, PANELS
from dsgt.comparison.method_runs import MethodRuns, measured
from dsgt.paper_figure import AGREE, COLOURS, LABELS, STYLE, WIDTH, panels, scale

SHOWN = ("loss", "node_accuracy_min", "consensus")
REFERENCE = "#4d4d4d"
DASHES = ("-", (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (8, 2)))
MARKERS = "osD^vP"
MARKED = 7
"""So many points of a line carry its marker, so that it is told from others in grey too."""
THICK, THIN = 2.0, 1.0
"""Points wide are the first line and the last: of two that lie on each other both are seen."""
LETTER, LINE = 0.058, 0.16
"""Inches that a letter of the legend takes, and a line of it."""


def looks(lines: Sequence[MethodRuns]) -> list[dict[str, Any]]:
    """How each method is drawn; the centralized reference is grey and dashed."""
    found: list[dict[str, Any]] = []
    rivals = [line for line in lines if not line.centralized]
    for line in lines:
        if line.centralized:
            found.append({"color": REFERENCE, "ls": "--"})
            continue
        number = sum("marker" in look for look in found)
        again, place = divmod(number, len(COLOURS))
        thick = THICK + (THIN - THICK) * number / max(1, len(rivals) - 1)
        found.append(
            {"color": COLOURS[place], "marker": MARKERS[(place + again) % len(MARKERS)],
             "ls": DASHES[again % len(DASHES)], "lw": thick, "ms": 2.2 + thick}
        )  # fmt: skip
    return found


def legend(drawn: Figure, width: float | None) -> None:
    """Over all panels, once; the figure grows by what it needs."""
    handles, labels = drawn.axes[0].get_legend_handles_labels()
    wide = WIDTH if width is None else width
    labels = [fill(label, int((wide - 0.5) / LETTER)) for label in labels]  # a long name of one's own
    widest = max((len(row) for label in labels for row in label.split("\n")), default=1)
    columns = max(1, min(len(labels), int(wide / (0.35 + LETTER * widest))))
    rows = -(-len(labels) // columns) * max((label.count("\n") + 1 for label in labels), default=1)
    drawn.set_figheight(drawn.get_figheight() + LINE * max(0, rows - 1))
    drawn.legend(
        handles, labels, loc="outside upper center", frameon=False, ncols=columns, columnspacing=1.2, handlelength=2.2
    )


@mpl.rc_context(STYLE)
def figure(lines: Sequence[MethodRuns], axis: str = "epochs", width: float | None = None) -> Figure:
    """Loss, accuracy and disagreement against an axis; bands are the range over the seeds. ``width`` is in inches."""
    shown = shown_panels(lines)
    drawn, axes = panels(len(shown), width)
    for panel, key in zip(axes, shown, strict=True):
        log = PANELS[key].log
        for number, (line, look) in enumerate(zip(lines, looks(lines), strict=True)):
            if not line.converged:
                panel.plot([], [], color=look["color"], ls=":", label=f"{line.title}, diverged")
                continue
            if key == "consensus" and line.centralized:
                continue  # one model has no distance from itself, only rounding
            seen = [at for at in zip(line.curve(axis)[0], *line.curve(key), strict=True) if at[1] is not None]
            where, *values = zip(*seen, strict=True) if seen else ((),) * 4
            mean, low, high = (_numbers(some, log) for some in values)
            every = max(1, len(where) // MARKED)
            marked = (number * every // len(lines), every)  # of lines that lie on each other not the same points
            panel.plot(where, mean, label=f"{line.title}, lr {line.lr:g}", markevery=marked, **look)
            panel.fill_between(where, low, high, color=look["color"], alpha=0.15, linewidth=0)
        panel.set(xlabel=AXES[axis], ylabel=LABELS[key])
        if not any(line.converged for line in lines):
            panel.text(0.5, 0.5, "every run diverged", ha="center", va="center", transform=panel.transAxes)
            panel.set(xticks=[], yticks=[])
        scale(panel, log)
        panel.grid(alpha=0.3, which="both" if log else "major")
    legend(drawn, width)
    return drawn


def shown_panels(lines: Sequence[MethodRuns]) -> list[str]:
    """Those of the panels that something was measured for."""
    return measured(lines, SHOWN) or ["loss"]


def _numbers(values: Sequence[float | None], log: bool) -> list[float]:
    """NaN leaves a gap in the line."""
    return [math.nan if v is None or (log and v <= AGREE) else v for v in values]
