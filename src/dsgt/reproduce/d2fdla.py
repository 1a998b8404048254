"""D² with FDLA weights: how often the paper's own graphs forbid it, and what happens when it is done all the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dsgt import topologies
from dsgt.reproduce import style
from dsgt.reproduce.cases import Row
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables
from dsgt.reproduce.training_run import TrainingRun, weights
from dsgt.threads import threads

FLOOR = -1 / 3
RUNS = {
    ("d2", "fdla"): ("D², FDLA", "#D55E00"),
    ("d2", "lifted-fdla"): ("D², FDLA lifted above −1/3", "#E69F00"),
    ("d2", "metropolis"): ("D², Metropolis", "#009E73"),
    ("dsgt", "fdla"): ("DSGT, FDLA", "#0072B2"),
}


@dataclass(frozen=True)
class Spectra:
    """The smallest eigenvalue of the weights of one of the paper's random graphs."""

    nodes: int
    graph_seed: int

    def __call__(self) -> list[Row]:
        with threads(1):
            graph = topologies.random_graph(self.nodes, seed=self.graph_seed)
            return [
                {"rule": rule, "lowest": topologies.smallest_eigenvalue(topologies.WEIGHTS[rule](graph))}
                for rule in ("fdla", "metropolis")
            ]


@dataclass(frozen=True)
class Size(Plan):
    counts: tuple[int, ...] = (6, 12, 18, 24, 48)
    graphs: int = 100
    trained: tuple[int, ...] = (12, 24)
    lr: float = 0.2
    batch: int = 256
    every: float = 1.0
    """Epochs between two measurements."""


FULL = Size(data="cifar10", seeds=2, epochs=4.0, lr=0.01, batch=1024, every=0.4)
QUICK = Size(graphs=20, seeds=2, epochs=40.0)


def measure(lab: Lab, plan: Size) -> Tables:
    spectra = lab.table([Spectra(n, seed) for n in plan.counts for seed in range(plan.graphs)])
    runs = lab.table(
        [
            TrainingRun(
                plan.data, "logistic", method, rule, n, plan.lr, seed, plan.epochs, plan.batch,
                every=plan.every, unchecked=True, data_dir=lab.data_dir,
            )
            for n in plan.trained
            for method, rule in RUNS
            for seed in range(1, plan.seeds + 1)
        ]
    )  # fmt: skip
    return {"spectra": spectra, "curves": runs}


def forbidden(spectra: pd.DataFrame) -> pd.DataFrame:
    """The share of graphs whose smallest eigenvalue is not above -1/3, by number of nodes and rule."""
    return spectra.assign(bad=spectra["lowest"] <= FLOOR).pivot_table(index="nodes", columns="rule", values="bad")


def figure(tables: Tables, plan: Size) -> Figure:
    picture, panels = style.panels(1, 1 + len(plan.trained))
    spectra, first = tables["spectra"], panels[0]
    for rule, colour, shift in (("fdla", "#0072B2", -0.6), ("metropolis", "#009E73", 0.6)):
        some = spectra[spectra["rule"] == rule]
        first.plot(some["nodes"] + shift, some["lowest"], ".", color=colour, ms=3, alpha=0.5, label=rule.upper()[:4])
    first.axhline(FLOOR, color="#D55E00", lw=1)
    first.text(plan.counts[-1], FLOOR + 0.01, "−1/3", ha="right", color="#D55E00")
    first.set(xlabel="nodes", ylabel="smallest eigenvalue of W", title="(a) random graphs, 2 log₂ n neighbours")
    first.legend(["FDLA", "Metropolis"], loc="lower left")
    for axes, n, letter in zip(panels[1:], plan.trained, "bcdef", strict=False):
        for (method, rule), (label, colour) in RUNS.items():
            curves = tables["curves"]
            some = curves[(curves["nodes"] == n) & (curves["method"] == method) & (curves["weights"] == rule)]
            style.band(axes, some[some["round"] > 0], "epochs", "consensus", colour=colour, label=label)
        lowest = topologies.smallest_eigenvalue(weights("fdla", n))
        axes.set(xlabel="epochs", ylabel="distance from the mean model", yscale="log")
        axes.set(title=f"({letter}) n = {n}, λₙ(FDLA) = {lowest:.3f}")
    panels[-1].legend()
    picture.suptitle(f"D² with FDLA weights; logistic regression on {plan.where}, lr {plan.lr:g}")
    return picture


def findings(tables: Tables, plan: Size) -> list[str]:
    share = forbidden(tables["spectra"])
    said = [
        f"λₙ ≤ −1/3 in {row['fdla']:.0%} of {plan.graphs} graphs with FDLA and in {row['metropolis']:.0%} with "
        f"Metropolis weights, n = {n}"
        for n, row in share.iterrows()
    ]
    ends = tables["curves"].groupby(["nodes", "method", "weights", "seed"], sort=False).tail(1)
    for (n, method, rule), some in ends.groupby(["nodes", "method", "weights"], sort=False):
        away = int((~np.isfinite(some["loss"]) | (some["consensus"] > 1e3)).sum())
        left = some[np.isfinite(some["loss"])]["loss"].mean()
        said.append(
            f"n = {n}, {RUNS[str(method), str(rule)][0]}: {away} of {len(some)} runs diverge"
            + (f"; final loss {left:.4f}" if away < len(some) else "")
        )
    return said


EXPERIMENT = Experiment(
    claim="FDLA weights may make D² diverge, which is why the paper gives it Metropolis weights",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
