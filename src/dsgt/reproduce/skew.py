"""Label-skewed shards: what the paper's random equal shards leave out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dsgt.reproduce import fig2, paper, paper_figure, paper_findings, style
from dsgt.reproduce.lab import Experiment, Lab, Tables
from dsgt.reproduce.paper import Task

FULL = Task(
    data="cifar10", model="logistic", methods=fig2.METHODS, seeds=3, epochs=10.0, tuning_epochs=5.0,
    partition="dirichlet:0.1", own_every=1.0,
)  # fmt: skip
QUICK = replace(fig2.QUICK, partition="dirichlet:0.1", own_every=1.0)


def measure(lab: Lab, task: Task) -> Tables:
    tuning, best = paper.tuned(lab, task)
    return {"tuning": tuning, "curves": paper.repeated(lab, task, best)}


def with_worst(curves: pd.DataFrame) -> pd.DataFrame:
    """The worst node's accuracy; one node is its own worst, and a run that diverged has none."""
    worst = curves["worst"].where(curves["nodes"] > 1, curves["accuracy"]).where(np.isfinite(curves["loss"]))
    return curves.assign(worst=worst.astype(float))


def figure(tables: Tables, task: Task) -> Figure:
    picture, (a, b, c) = style.panels(1, 3)
    curves = with_worst(tables["curves"])
    for axes, key in ((a, "loss"), (b, "accuracy"), (c, "worst")):
        paper_figure.methods(axes, curves, "epochs", key, task)
    paper_figure.cut_above(a, curves)
    a.set(xlabel="epochs", ylabel="training loss, mean model")
    b.set(xlabel="epochs", ylabel="test accuracy, mean model")
    c.set(xlabel="epochs", ylabel="test accuracy, worst node")
    b.legend()
    picture.suptitle(f"Logistic regression on {task.where}, {task.nodes} nodes, label skew {task.partition}")
    return picture


def findings(tables: Tables, task: Task) -> list[str]:
    curves, best = tables["curves"], paper.best_of(tables["tuning"])
    said = [
        f"{style.NAMES[str(m)]} (lr {best[str(m)]:g}): final loss {paper_findings.over_seeds(ends['loss'])}, test "
        f"accuracy {ends['accuracy'].mean():.2%}, of the worst node {paper_findings.over_seeds(ends['worst'], '.2%')}"
        for m, ends in paper.last(with_worst(curves)).groupby("method", sort=False)
    ]
    said += [paper_findings.paired(curves, "dsgt", m, "loss") for m in task.methods if m != "dsgt"]
    return said + paper_findings.edge_notes(tables["tuning"], best)


EXPERIMENT = Experiment(
    claim="(not in the paper) DSGT does not depend on how the data differ between the nodes",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
