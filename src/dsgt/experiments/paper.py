"""What figures 2, 3 and 4 share: the paper's section 6 as data, and how its runs are tuned, repeated and timed.

Random equal shards, a global batch of 1024, a constant learning rate tuned per method and task on the paper's grid, a
random graph with 2 log2 n neighbours on average, FDLA weights for DSGT and D-PSGD and Metropolis weights for D².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import ttest_1samp

from dsgt.comparison import PAPER_GRID
from dsgt.experiments import style
from dsgt.experiments.clock import ETHERNET, WIRES, Gradient, Wire, seconds_per_round
from dsgt.experiments.lab import Lab, Plan, Tables, records
from dsgt.experiments.training import Training

WEIGHTS = {"dsgt": "fdla", "dpsgd": "fdla", "atc-dpsgd": "fdla", "d2": "metropolis", "sgd": "all"}
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
    batch: int = 1024
    tuning_epochs: float = 1.0
    every: float = 1.0
    """Epochs between two measurements."""
    partition: str = "equal"
    worst: bool = False

    def training(
        self, lab: Lab, method: str, *, lr: float, seed: int, nodes: int, epochs: float, weights: str = ""
    ) -> Training:
        """A run; the weights are the paper's for the method unless others are named."""
        nodes = 1 if method == "sgd" else nodes  # centralized: one node that holds everything
        return Training(
            self.data, self.model, method, weights or WEIGHTS[method], nodes, lr, seed, epochs, self.batch,
            every=self.every, partition=self.partition if nodes > 1 else "equal", worst=self.worst and nodes > 1,
            data_dir=lab.data_dir,
        )  # fmt: skip


def tuned(lab: Lab, task: Task) -> tuple[pd.DataFrame, dict[str, float]]:
    """Every method at every learning rate of the grid, the same epochs for all; the lowest final training loss wins."""
    epochs = min(task.tuning_epochs, task.epochs)
    runs = lab.table(
        [
            task.training(lab, method, lr=lr, seed=TUNING_SEED, nodes=task.nodes, epochs=epochs)
            for method in task.methods
            for lr in task.lrs
        ]
    )
    ends = last(runs)
    tuning = ends[["method", "weights", "nodes", "lr", "seed", "epochs", "loss", "accuracy"]]
    return tuning, best_of(tuning)


def repeated(lab: Lab, task: Task, best: dict[str, float]) -> pd.DataFrame:
    """Every method at its learning rate, with fresh seeds."""
    return lab.table(
        [
            task.training(lab, method, lr=best[method], seed=seed, nodes=task.nodes, epochs=task.epochs)
            for seed in range(1, task.seeds + 1)
            for method in task.methods
        ]
    )


def counted(lab: Lab, task: Task, lr: float) -> pd.DataFrame:
    """DSGT over other numbers of nodes, at one learning rate: the same for centralized SGD, so for every n.

    Should a run diverge, all are repeated at the next smaller learning rate of the grid; what diverged stays in the
    table. One node of DSGT is centralized SGD, bit for bit, so that run is not done twice."""
    tried = []
    for smaller in sorted((x for x in task.lrs if x <= lr), reverse=True):
        runs = lab.table(
            [
                task.training(lab, "dsgt" if n > 1 else "sgd", lr=smaller, seed=seed, nodes=n, epochs=task.epochs)
                for n in task.counts
                for seed in range(1, task.counted_seeds + 1)
            ]
        )
        tried.append(runs)
        if np.isfinite(runs["loss"]).all():
            break
    return pd.concat(tried, ignore_index=True)


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
    Metropolis weights."""
    found = diverged(scaling)
    return lab.table(
        [
            task.training(lab, method, lr=r["lr"], seed=r["seed"], nodes=r["nodes"], epochs=task.epochs,
                          weights="metropolis")
            for r in records(found[found["nodes"] == found["nodes"].max()])
            for method in ("dsgt", "d2")
        ]
    )  # fmt: skip


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
            for wire in wires:  # over n nodes the exact counterpart of centralized SGD is an all-reduce
                seconds = seconds_per_round(method, WEIGHTS[method], n, dim, compute, wire)
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
            lines.append(
                {"network": wire, "nodes": n, "target_loss": target, "rounds": k, "seconds": seconds,
                 "speedup": alone / seconds, "speedup_per_round": here[wire, 1] / here[wire, n]}
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


def figure(tables: Tables, task: Task) -> Figure:
    """The paper's four panels."""
    picture, (a, b, c, d) = style.panels(2, 2)
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


def on_clock(curves: pd.DataFrame, clock: pd.DataFrame, task: Task) -> pd.DataFrame:
    """With virtual seconds: rounds times the seconds of a round over so many nodes."""
    here = clock[(clock["network"] == ETHERNET.name) & (clock["nodes"] == task.nodes)]
    seconds = here.set_index("method")["seconds_per_round"]
    return curves.assign(seconds=curves["round"] * curves["method"].map(seconds))


def methods(axes: Axes, curves: pd.DataFrame, x: str, y: str, task: Task) -> None:
    for method in task.methods:
        some = curves[curves["method"] == method]
        label = f"{style.NAMES[method]}, lr {some['lr'].iloc[0]:g}"
        style.band(axes, some, x, y, colour=style.COLOURS[method], label=label, line=style.LINES.get(method, "-"),
                   width=2.5 if method == "dsgt" else 1.5)  # fmt: skip


def cut_above(axes: Axes, curves: pd.DataFrame) -> None:
    """Leave out the start, where all curves fall together."""
    finite = curves[np.isfinite(curves["loss"]) & (curves["round"] > 0)]["loss"]
    low, high = float(finite.min()), float(finite.max())
    axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))


def speedup_panel(axes: Axes, table: pd.DataFrame, counts: tuple[int, ...]) -> None:
    axes.plot(counts, counts, color="0.6", ls=":", label="ideal")
    for (wire, some), mark in zip(table.groupby("network", sort=False), style.MARKS, strict=False):
        axes.plot(some["nodes"], some["speedup"], marker=mark, ms=4, label=str(wire))
    axes.set(xlabel="nodes", ylabel="speedup over one node")
    axes.legend()


def ends_of(curves: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over the seeds of the last loss and accuracy, by method."""
    return last(curves).groupby("method", sort=False)[["loss", "accuracy"]].agg(["mean", "std"]).fillna(0.0)


def paired(curves: pd.DataFrame, one: str, other: str, key: str) -> str:
    """The difference of two methods at the end, seed by seed: the same shards and the same batches."""
    ends = last(curves).pivot(index="seed", columns="method", values=key)
    difference = (ends[one] - ends[other]).to_numpy(dtype=float)
    return f"{key} of {style.NAMES[one]} minus {style.NAMES[other]}: {verdict(difference)}"


def verdict(difference: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    """Mean and standard deviation of differences seed by seed, and whether a t-test tells them from zero (5 %)."""
    mean = float(difference.mean())
    if len(difference) < 2:
        return f"{mean:+.4f}, one seed"
    if not np.isfinite(difference).all():
        return "not finite: a run diverged"
    spread = float(difference.std(ddof=1))
    p = 1.0 if not difference.any() else 0.0 if spread == 0 else float(ttest_1samp(difference, 0.0).pvalue)
    said = "a difference" if p < 0.05 else "no difference beyond the spread"
    return f"{mean:+.4f} ± {spread:.4f} over {len(difference)} seeds ({said}, p = {p:.2g})"


def halfway(curves: pd.DataFrame, task: Task) -> list[str]:
    """Epochs and virtual seconds to the training loss that DSGT has on average at half time."""
    ours = curves[(curves["method"] == "dsgt") & (curves["epochs"] <= task.epochs / 2 + 0.01)]
    target = float(ours[ours["epochs"] == ours["epochs"].max()]["loss"].mean())
    said = []
    for method, runs in curves.groupby("method", sort=False):
        rounds = np.array([rounds_to(run, target) for _, run in runs.groupby("seed")])
        later = runs[runs["round"] > 0].iloc[-1]
        epochs, seconds = (rounds * later[unit] / later["round"] for unit in ("epochs", "seconds"))
        said.append(
            f"{style.NAMES[str(method)]} reaches a loss of {target:.3f} after {epochs.mean():.1f} epochs "
            f"({epochs.min():.1f} to {epochs.max():.1f}), {seconds.mean():.3g} virtual seconds"
        )
    return said


def edge_notes(tuning: pd.DataFrame, best: dict[str, float]) -> list[str]:
    grid = sorted(tuning["lr"].unique())
    found = [style.NAMES[m] for m, lr in best.items() if len(grid) > 1 and lr in (grid[0], grid[-1])]
    return [f"The best learning rate is at the edge of the grid for {', '.join(found)}."] if found else []


def best_of(tuning: pd.DataFrame) -> dict[str, float]:
    """The learning rate of the lowest final loss, by method; the first of several."""
    best: dict[str, float] = {}
    for run in sorted(records(tuning), key=lambda run: float(run["loss"])):
        best.setdefault(run["method"], run["lr"])
    return best


def findings(tables: Tables, task: Task) -> list[str]:
    curves, best = tables["curves"], best_of(tables["tuning"])
    said = [
        f"{style.NAMES[str(m)]} (lr {best[str(m)]:g}): final loss {r['loss', 'mean']:.4f} ± {r['loss', 'std']:.4f}, "
        f"test accuracy {r['accuracy', 'mean']:.2%} ± {r['accuracy', 'std']:.2%}"
        for m, r in ends_of(curves).iterrows()
    ]
    others = [m for m in task.methods if m not in ("dsgt",)]
    said += [paired(curves, "dsgt", other, "loss") for other in others]
    said += halfway(on_clock(curves, tables["clock"], task), task)
    said += edge_notes(tables["tuning"], best)
    said += [
        f"DSGT with {r['weights']} weights over n = {r['nodes']} diverges at lr {r['lr']:g}, in round {r['round']}"
        for r in records(diverged(tables["scaling"]))
    ]
    said += [
        f"There, over n = {r['nodes']}, {style.NAMES[r['method']]} with {r['weights']} weights ends with a loss of "
        f"{r['loss']:.4f}"
        for r in (records(last(tables["causes"])) if "causes" in tables else [])
    ]
    scaling = common(tables["scaling"])
    ends = last(scaling).groupby("nodes")["loss"].mean()
    table = tables["speedup"]
    rounds = table[table["network"] == table["network"].iloc[0]].set_index("nodes")["rounds"]
    said.append(
        f"DSGT's final loss at lr {scaling['lr'].iloc[0]:g}: "
        + ", ".join(f"n = {n}: {v:.4f}" for n, v in ends.items())
        + "; rounds to the loss that all reach: " + ", ".join(f"n = {n}: {v:.0f}" for n, v in rounds.items())
    )  # fmt: skip
    for wire, some in table.groupby("network", sort=False):
        values = some.set_index("nodes")["speedup"]
        said.append(f"Speedup ({wire}): " + ", ".join(f"n = {n}: {v:.1f}" for n, v in values.items()))
    return said
