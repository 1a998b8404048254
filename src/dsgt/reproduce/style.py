"""How the figures look: one colour per method, bands over the seeds, fonts that stay text in a PDF."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

NAMES = {
    "dsgt": "DSGT",
    "dsgt/metropolis": "DSGT, Metropolis",
    "dpsgd": "D-PSGD",
    "atc-dpsgd": "D-PSGD, adapt first",
    "d2": "D²",
    "sgd": "centralized SGD",
    "gnsd": "GNSD",
    "extra": "EXTRA",
    "exact-diffusion": "Exact Diffusion",
}
# Okabe and Ito's colours: told apart by everyone, also in grey.
COLOURS = {
    "dsgt": "#0072B2",
    "dsgt/metropolis": "#56B4E9",
    "dpsgd": "#D55E00",
    "atc-dpsgd": "#E69F00",
    "d2": "#009E73",
    "sgd": "#000000",
    "gnsd": "#CC79A7",
    "extra": "#E69F00",
    "exact-diffusion": "#56B4E9",
}
LINES = {"dsgt/metropolis": ":", "atc-dpsgd": ":", "d2": "-.", "sgd": "--"}
"""Of methods whose curves lie on each other; the others' lines are whole."""
MARKS = "osD^vPX"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "figure.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "pdf.fonttype": 42,
    "savefig.dpi": 160,
}


def panels(rows: int, columns: int, *, width: float = 3.5, height: float = 2.7) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).flatten().tolist()


def save(draw: Callable[[], Figure], path: Path) -> None:
    """Draw in this style, as a PNG and a PDF of this name."""
    with mpl.rc_context(STYLE):
        figure = draw()
        # no date inside: the same numbers give the same file
        figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})
        figure.savefig(path.with_suffix(".png"))


def band(
    axes: Axes, table: pd.DataFrame, x: str, y: str, *, colour: str, label: str, line: str = "-", width: float = 1.5
) -> None:
    """The mean over the seeds, and their range. A run that diverged is left out, and the legend says so; where all did,
    they leave the picture there."""
    shown = table.astype({y: float})
    survived = np.isfinite(shown.groupby("seed").tail(1).set_index("seed")[y])
    if 0 < survived.sum() < len(survived):
        shown = shown[shown["seed"].isin(survived.index[survived])]
        label += f" ({len(survived) - survived.sum()} of {len(survived)} seeds diverged)"
    elif not survived.any():
        label += " (diverged)"
    shown = shown[np.isfinite(shown[y])]
    over = shown.groupby(x)[y].agg(["mean", "min", "max", "count"])
    over = over[over["count"] == over["count"].max()]
    axes.plot(over.index, over["mean"], label=label, color=colour, ls=line, lw=width)
    axes.fill_between(over.index, over["min"], over["max"], color=colour, alpha=0.18, linewidth=0)


def sequence(count: int) -> Sequence[str]:
    """Colours for numbers of nodes, from light to dark."""
    colours = mpl.colormaps["viridis_r"](np.linspace(0.15, 1.0, count))
    return [mpl.colors.to_hex(c) for c in colours]
