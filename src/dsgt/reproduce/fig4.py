"""Figure 4: test accuracy on both tasks. The runs are those of figures 2 and 3; none is repeated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import pandas as pd
from matplotlib.figure import Figure

from dsgt.reproduce import fig2, fig3, paper, paper_figure, paper_findings, style
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables
from dsgt.reproduce.paper import Task


@dataclass(frozen=True)
class Both(Plan):
    tasks: tuple[Task, ...] = ()

    def adjusted(self, *, seeds: int | None = None, epochs: float | None = None) -> Self:
        return replace(self, tasks=tuple(task.adjusted(seeds=seeds, epochs=epochs) for task in self.tasks))


FULL = Both(data="cifar10", tasks=(fig3.FULL, fig2.FULL))
QUICK = Both(data="digits", tasks=(fig3.QUICK, fig2.QUICK))


def measure(lab: Lab, both: Both) -> Tables:
    return {"curves": pd.concat([paper.repeated(lab, task, paper.tuned(lab, task)[1]) for task in both.tasks])}


def figure(tables: Tables, both: Both) -> Figure:
    picture, panels = style.panels(1, len(both.tasks), height=3.6)
    for axes, task, letter in zip(panels, both.tasks, "ab", strict=False):
        some = tables["curves"][tables["curves"]["model"] == task.model]
        paper_figure.methods(axes, some, "epochs", "accuracy", task)
        finite = some[(some["round"] > 0) & some["accuracy"].notna()]["accuracy"]
        if len(finite):  # else all have diverged
            low, high = float(finite.quantile(0.02)), float(finite.max())
            room = max(high - low, 1e-3)
            axes.set_ylim(low - 0.6 * room, high + 0.1 * room)  # the legend stands below the curves
        name = "LeNet" if task.model == "lenet" else "logistic regression"
        axes.set(xlabel="epochs", ylabel="test accuracy, mean model", title=f"({letter}) {name}, {task.nodes} nodes")
        axes.legend(loc="lower right")
    picture.suptitle(f"Test accuracy on {both.where}")
    return picture


def findings(tables: Tables, both: Both) -> list[str]:
    said = []
    for task in both.tasks:
        curves = tables["curves"][tables["curves"]["model"] == task.model]
        said += [
            f"{task.model}: {style.NAMES[str(m)]} {paper_findings.over_seeds(ends['accuracy'], '.2%')}"
            for m, ends in paper.last(curves).groupby("method", sort=False)
        ]
        said += [
            f"{task.model}: " + paper_findings.paired(curves, "dsgt", other, "accuracy")
            for other in task.methods
            if other != "dsgt"
        ]
    return said


EXPERIMENT = Experiment(
    claim="DSGT has a higher test accuracy than D-PSGD and D²",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
