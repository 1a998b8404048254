"""Figures 2 and 3 as the paper draws them: four panels of one task."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dsgt.reproduce import style
from dsgt.reproduce.clock import ETHERNET
from dsgt.reproduce.lab import Tables
from dsgt.reproduce.paper import Task, common, on_clock


def figure(tables: Tables, task: Task) -> Figure:
    """The paper's four panels."""
    picture, (a, b, c, d) = style.panels(2, 2, height=3.0)
    tables = tables | {"curves": on_clock(tables["curves"], tables["clock"], task)}
    for axes, x in ((a, "epochs"), (b, "seconds")):
        methods(axes, tables["curves"], x, "loss", task)
    a.set(xlabel="epochs", ylabel="training loss", title=f"(a) {task.nodes} nodes")
    b.set(xlabel=f"virtual seconds ({ETHERNET.name})", ylabel="training loss", title=f"(b) {task.nodes} nodes")
    a.legend()
    for n, colour in zip(task.counts, style.sequence(len(task.counts)), strict=True):
        some = common(tables["scaling"])
        some = some[some["nodes"] == n]
        style.band(c, some, "epochs", "loss", colour=colour, label=f"n = {n}")
    c.set(xlabel="epochs", ylabel="training loss", title=f"(c) DSGT, lr {common(tables['scaling'])['lr'].iloc[0]:g}")
    c.legend()
    speedup_panel(d, tables["speedup"], task.counts)
    d.set(title="(d) DSGT, time to one training loss")
    cut_above(a, tables["curves"])
    cut_above(b, tables["curves"])
    cut_above(c, common(tables["scaling"]))
    picture.suptitle(f"{'Logistic regression' if task.model == 'logistic' else 'LeNet'} on {task.where}")
    return picture


def methods(axes: Axes, curves: pd.DataFrame, x: str, y: str, task: Task) -> None:
    for method in task.methods:
        some = curves[curves["method"] == method]
        label = f"{style.NAMES[method]}, lr {some['lr'].iloc[0]:g}"
        style.band(axes, some, x, y, colour=style.COLOURS[method], label=label, line=style.LINES.get(method, "-"),
                   width=2.5 if method == "dsgt" else 1.5)  # fmt: skip


def cut_above(axes: Axes, curves: pd.DataFrame) -> None:
    """Leave out the start, where all curves fall together, and what rises above it on its way to infinity."""
    finite = curves[np.isfinite(curves["loss"])]
    start, rest = finite[finite["round"] == 0]["loss"], finite[finite["round"] > 0]["loss"]
    if not len(rest):  # all have diverged
        return
    low, high = float(rest.min()), float(min(rest.max(), start.max() if len(start) else math.inf))
    # Two methods may have equal losses to the last bit: one line in the middle, and no axis that magnifies rounding.
    margin = max(0.05 * (high - low), 1e-3 * abs(high), 1e-9)
    axes.set_ylim(low - margin, high + margin)


def speedup_panel(axes: Axes, table: pd.DataFrame, counts: tuple[int, ...]) -> None:
    axes.plot(counts, counts, color="0.6", ls=":", label="ideal")
    for (wire, some), mark in zip(table.groupby("network", sort=False), style.MARKS, strict=False):
        axes.plot(some["nodes"], some["speedup"], marker=mark, ms=4, label=str(wire))
    axes.set(xlabel="nodes", ylabel="speedup over one node")
    axes.legend()
