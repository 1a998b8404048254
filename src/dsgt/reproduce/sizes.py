"""Figures 2a, 3a and 4 over other numbers of nodes, which the paper says look the same. One seed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dsgt.reproduce import fig2, fig3, paper, paper_figure, style
from dsgt.reproduce.fig4 import Both
from dsgt.reproduce.lab import Experiment, Lab, Tables, records
from dsgt.reproduce.paper import Task

SEED = 1


@dataclass(frozen=True)
class Sizes(Both):
    counts: tuple[int, ...] = (6, 18, 24)


FULL = Sizes(data="cifar10", tasks=(fig2.FULL, fig3.FULL))
QUICK = Sizes(data="digits", tasks=(fig2.QUICK, replace(fig3.QUICK, methods=("dsgt", "dpsgd", "d2"))), counts=(6, 18))


def measure(lab: Lab, plan: Sizes) -> Tables:
    return {"curves": pd.concat([_runs(lab, task, plan) for task in plan.tasks], ignore_index=True)}


def _runs(lab: Lab, task: Task, plan: Sizes) -> pd.DataFrame:
    """At the learning rates that were tuned over the task's own number of nodes, as the paper's figures are drawn."""
    best = paper.tuned(lab, task)[1]
    runs = {
        n: [task.training(lab, m, lr=best[m], seed=SEED, nodes=n, epochs=task.epochs) for m in task.methods]
        for n in plan.counts
    }
    lab.table([case for cases in runs.values() for case in cases])  # all of them, several at a time
    return pd.concat([paper.told_apart(lab.table(cases)).assign(over=n) for n, cases in runs.items()])


def figure(tables: Tables, plan: Sizes) -> Figure:
    rows = [(task, key) for task in plan.tasks for key in ("loss", "accuracy")]
    picture, panels = style.panels(len(rows), len(plan.counts))
    for (task, key, n), axes in zip([(*row, n) for row in rows for n in plan.counts], panels, strict=True):
        some = tables["curves"]
        some = some[(some["model"] == task.model) & (some["over"] == n)]
        paper_figure.methods(axes, some, "epochs", key, task)
        axes.set(xlabel="epochs", ylabel="training loss" if key == "loss" else "test accuracy")
        axes.set_title(f"{'logistic regression' if task.model == 'logistic' else 'LeNet'}, {n} nodes")
        if key == "loss":
            paper_figure.cut_above(axes, some)
            if n == plan.counts[0] or not np.isfinite(some["loss"]).all():
                axes.legend(fontsize=6.5)  # and who has diverged
    picture.suptitle(f"Other numbers of nodes, learning rates tuned over {plan.tasks[0].nodes}; {plan.where}, one seed")
    return picture


def findings(tables: Tables, plan: Sizes) -> list[str]:
    ends = tables["curves"].groupby(["model", "over", "method"], sort=False).tail(1)
    return [
        f"{r['model']}, n = {r['over']}, {style.NAMES[r['method']]} (lr {r['lr']:g}): "
        + (f"final loss {r['loss']:.4f}, test accuracy {r['accuracy']:.2%}" if np.isfinite(r["loss"]) else
           f"diverges in round {r['round']}")
        for r in records(ends)
    ]  # fmt: skip


EXPERIMENT = Experiment(
    claim="Over other numbers of nodes figures 2a, 3a and 4 look the same",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
