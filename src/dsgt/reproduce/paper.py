"""What figures 2, 3 and 4 share: the paper's section 6 as data, and how its runs are tuned, repeated and timed.

Random equal shards, a global batch of 1024, a constant learning rate tuned per method and task on the paper's grid, a
random graph with 2 log2 n neighbours on average, FDLA weights for DSGT and D-PSGD and Metropolis weights for D².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dsgt.comparison import PAPER_GRID
from dsgt.reproduce.clock import ETHERNET, WIRES, Gradient, Wire, seconds_per_round
from dsgt.reproduce.grids import Grids, grown
from dsgt.reproduce.lab import Lab, Plan, Tables, records
from dsgt.reproduce.training_run import TrainingRun

WEIGHTS = {"dsgt": "fdla", "dpsgd": "fdla", "atc-dpsgd": "fdla", "d2": "metropolis", "sgd": "all"}
"""The paper's; "dsgt/metropolis" is a method with others."""
LADDER = (*PAPER_GRID, 0.3, 0.5, 1.0)
"""The paper's learning rates, and on."""
TUNING_SEED = 0
"""Learning rates are chosen with this seed; what is reported uses 1, 2, ..., so that nobody profits from the choice."""


@dataclass(frozen=True)
class Task(Plan):
    """One of the paper's two tasks."""

    model: str = "logistic"
    methods: tuple[str, ...] = ("dsgt", "dpsgd", "d2", "sgd")
    nodes: int = 12
    counts: tuple[int, ...] = (1, 6, 12, 18, 24)
    counted_seeds: int = 1
    """Seeds of the runs over other numbers of nodes."""
    lrs: tuple[float, ...] = PAPER_GRID
    """The learning rates that every method is tried with."""
    ladder: tuple[float, ...] = ()
    """Where a method's best one is the largest or the smallest that was tried, the next of these is tried too."""
    batch: int = 1024
    tuning_epochs: float = 1.0
    every: float = 1.0
    """Epochs between two measurements."""
    partition: str = "equal"
    own_every: float = 0.0
    """Epochs between two measurements of the nodes' own models; 0: never."""
    measured: int = 0
    """Samples that a model is measured on; 0: all."""

    def training(
        self, lab: Lab, method: str, *, lr: float, seed: int, nodes: int, epochs: float, every: float = 0.0
    ) -> TrainingRun:
        """A run of "dsgt", with the paper's weights, or of "dsgt/metropolis"; measured as the task says, or as told."""
        name, _, rule = method.partition("/")
        nodes = 1 if name == "sgd" else nodes  # centralized: one node that holds everything
        several = nodes > 1
        return TrainingRun(
            self.data, self.model, name, rule or WEIGHTS[name], nodes, lr, seed, epochs, self.batch,
            every=every or self.every, partition=self.partition if several else "equal",
            own_every=self.own_every if several and not every else 0.0, measured=self.measured, data_dir=lab.data_dir,
        )  # fmt: skip


def tuned(lab: Lab, task: Task) -> tuple[pd.DataFrame, dict[str, float]]:
    """Every method at the learning rates of its grid, the same epochs for all; the lowest final training loss wins."""
    epochs = min(task.tuning_epochs, task.epochs)

    def tuning(grids: Grids[str]) -> pd.DataFrame:
        cases = [
            task.training(lab, method, lr=lr, seed=TUNING_SEED, nodes=task.nodes, epochs=epochs, every=epochs)
            for method, lrs in grids.items()
            for lr in sorted(lrs)
        ]
        return last(told_apart(lab.table(cases)))[
            ["method", "weights", "nodes", "lr", "seed", "epochs", "loss", "accuracy"]
        ]

    grids = grown({method: {*task.lrs} for method in task.methods}, task.ladder, lambda some: best_of(tuning(some)))
    found = tuning(grids)
    return found, best_of(found)


def repeated(lab: Lab, task: Task, best: dict[str, float]) -> pd.DataFrame:
    """Every method at its learning rate, with fresh seeds."""
    return told_apart(
        lab.table(
            [
                task.training(lab, method, lr=best[method], seed=seed, nodes=task.nodes, epochs=task.epochs)
                for seed in range(1, task.seeds + 1)
                for method in task.methods
            ]
        )
    )


def told_apart(runs: pd.DataFrame) -> pd.DataFrame:
    """A method with other weights than the paper's is a method of its own."""
    other = runs["weights"] != runs["method"].map(WEIGHTS)
    return runs.assign(method=runs["method"].where(~other, runs["method"] + "/" + runs["weights"]))


def counted(lab: Lab, task: Task, lr: float) -> pd.DataFrame:
    """DSGT over other numbers of nodes, at one learning rate: the same for centralized SGD, so for every n.

    Should a run diverge, all are repeated at the next smaller learning rate, and what diverged stays in the table. The
    largest network, which diverges first, comes first, then the others together. One node of DSGT is centralized SGD,
    bit for bit, so that run is not done twice."""
    tried: list[pd.DataFrame] = []
    for smaller in sorted({x for x in (*task.lrs, *task.ladder) if x <= lr}, reverse=True):
        cases = {
            n: [
                task.training(lab, "dsgt" if n > 1 else "sgd", lr=smaller, seed=k, nodes=n, epochs=task.epochs)
                for k in range(1, task.counted_seeds + 1)
            ]
            for n in sorted(task.counts)
        }
        tried.append(lab.table(cases[max(cases)]))
        if _converged(tried[-1]):
            tried[-1] = lab.table([case for some in cases.values() for case in some])
            if _converged(tried[-1]):
                break
    return pd.concat(tried[::-1], ignore_index=True)


def _converged(runs: pd.DataFrame) -> bool:
    return bool(np.isfinite(runs["loss"]).all())


def common(scaling: pd.DataFrame) -> pd.DataFrame:
    """The runs over all numbers of nodes at the learning rate that suited them all."""
    found: pd.DataFrame = scaling[scaling["lr"] == scaling["lr"].min()]
    return found


def diverged(runs: pd.DataFrame) -> pd.DataFrame:
    """The last rows of the runs that did."""
    ends = last(runs)
    found: pd.DataFrame = ends[~np.isfinite(ends["loss"])]
    return found


def causes(lab: Lab, task: Task, scaling: pd.DataFrame) -> pd.DataFrame:
    """Where DSGT diverged, is it the method or its FDLA weights? DSGT and D² over the largest such n, both with
    Metropolis weights, once."""
    (worst,) = records(diverged(scaling).sort_values(["nodes", "lr"]).tail(1))
    at = {"lr": worst["lr"], "seed": worst["seed"], "nodes": worst["nodes"], "epochs": task.epochs}
    return lab.table([task.training(lab, method, **at) for method in ("dsgt/metropolis", "d2")])


def last(runs: pd.DataFrame) -> pd.DataFrame:
    """The last row of every run."""
    by = [c for c in ("data", "model", "method", "weights", "nodes", "lr", "seed", "partition") if c in runs]
    return runs.groupby(by, sort=False).tail(1).reset_index(drop=True)


def timed(lab: Lab, task: Task, counts: tuple[int, ...], wires: tuple[Wire, ...] = WIRES) -> pd.DataFrame:
    """Seconds a round takes on each network, from gradients timed here."""
    gradients = lab.table(
        [Gradient(task.data, task.model, n, task.batch, data_dir=lab.data_dir) for n in counts], alone=True
    )
    lines: list[dict[str, Any]] = []
    for g in records(gradients):
        n, dim, compute = g["nodes"], g["dim"], g["seconds"]
        for method in task.methods:
            name, _, rule = method.partition("/")
            for wire in wires:  # over n nodes the exact counterpart of centralized SGD is an all-reduce
                seconds = seconds_per_round(name, rule or WEIGHTS[name], n, dim, compute, wire)
                lines.append(
                    {"model": task.model, "method": method, "nodes": n, "network": wire.name, "compute": compute,
                     "seconds_per_round": seconds}
                )  # fmt: skip
    return pd.DataFrame(lines)


def rounds_to(runs: pd.DataFrame, target: float) -> float:
    """The round in which a run's loss first is at most the target, interpolated; infinite where it never is."""
    loss, k = runs["loss"].to_numpy(dtype=float), runs["round"].to_numpy(dtype=float)
    below = np.flatnonzero(loss <= target)
    if len(below) == 0:
        return float("inf")
    i = int(below[0])
    if i == 0:
        return float(k[0])
    share = (loss[i - 1] - target) / (loss[i - 1] - loss[i])
    return float(k[i - 1] + share * (k[i] - k[i - 1]))


def speedups(scaling: pd.DataFrame, clock: pd.DataFrame) -> pd.DataFrame:
    """Rounds and seconds until the training loss that every run reaches, and how much faster that is than one node."""
    reached = scaling.groupby(["nodes", "seed"])["loss"].min()
    target = float(reached.max())
    rounds = {
        n: float(np.mean([rounds_to(run, target) for _, run in runs.groupby("seed")]))
        for n, runs in scaling.groupby("nodes")
    }
    lines = []
    here = clock[clock["method"] == "dsgt"].set_index(["network", "nodes"])["seconds_per_round"]
    for wire in clock["network"].unique():
        alone = rounds[1] * here[wire, 1]
        for n, k in rounds.items():
            seconds = k * here[wire, n]
            faster = alone / seconds if 0 < seconds < np.inf else np.nan  # no run has left its start, or all diverged
            lines.append(
                {"network": wire, "nodes": n, "target_loss": target, "rounds": k, "seconds": seconds,
                 "speedup": faster, "speedup_per_round": here[wire, 1] / here[wire, n]}
            )  # fmt: skip
    return pd.DataFrame(lines)


def measure(lab: Lab, task: Task) -> Tables:
    tuning, best = tuned(lab, task)
    curves = repeated(lab, task, best)
    scaling = counted(lab, task, best["dsgt"])
    clock = timed(lab, task, task.counts)
    tables = {
        "tuning": tuning,
        "curves": curves,
        "scaling": scaling,
        "clock": clock,
        "speedup": speedups(common(scaling), clock),
    }
    return tables | ({"causes": causes(lab, task, scaling)} if len(diverged(scaling)) else {})


def on_clock(curves: pd.DataFrame, clock: pd.DataFrame, task: Task) -> pd.DataFrame:
    """With virtual seconds: rounds times the seconds of a round over so many nodes."""
    here = clock[(clock["network"] == ETHERNET.name) & (clock["nodes"] == task.nodes)]
    seconds = here.set_index("method")["seconds_per_round"]
    return curves.assign(seconds=curves["round"] * curves["method"].map(seconds))


def best_of(tuning: pd.DataFrame) -> dict[str, float]:
    """The learning rate of the lowest final loss, by method; the first of several."""
    best: dict[str, float] = {}
    for run in sorted(records(tuning), key=lambda run: float(run["loss"])):
        best.setdefault(run["method"], run["lr"])
    return best
