"""Section 5.3: the speedup where only node 1 has a loss, beside the one where all nodes share its samples.

Least squares. A node computes B/n gradients in a round of n nodes, so a round lasts B/n; where the samples are not
shared, those of node 1 are all that help, because the others' functions are 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure

from dsgt import metrics, topologies
from dsgt.algorithms import DSGT
from dsgt.data import Samples, Shards, WithReplacement, synthetic
from dsgt.divergence import DivergedError
from dsgt.problems import LeastSquares
from dsgt.reproduce import style
from dsgt.reproduce.cases import Row
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables, records
from dsgt.run import run
from dsgt.threads import threads

SAMPLES, DIM, BATCH = 2048, 10, 64
WAYS = {"shared": "all nodes share the samples", "lonely": "only node 1 has a loss"}


@dataclass(frozen=True)
class Arrival:
    """When DSGT's mean model first has this excess loss. The unit of time: one node computes a whole batch."""

    way: str
    nodes: int
    lr: float
    seed: int
    target: float
    limit: float

    def __call__(self) -> list[Row]:
        n = self.nodes
        # F is a mean over all samples; with (n - 1) N that have no loss it is the n-th part of node 1's own
        others = n if self.way == "lonely" else 1
        data = Samples(*(torch.cat([v, v.new_zeros((others - 1) * SAMPLES, *v.shape[1:])]) for v in samples()))
        shards = Shards(torch.arange(len(data)), torch.full((n,), len(data) // n))
        problem = LeastSquares(data, shards, WithReplacement(batch=BATCH))
        W = topologies.metropolis(topologies.ring(n)) if n > 2 else topologies.averaging(n)
        rows: list[Row] = []
        try:
            with threads(1):
                run(
                    DSGT(), problem, W, rounds=round(self.limit * n), lr=self.lr * others, every=max(1, n // 2),
                    metrics={"gap": metrics.gap}, seed=self.seed, watch=rows.append,
                )  # fmt: skip
        except DivergedError:
            pass  # never arrives
        there = [row["round"] for row in rows if row["gap"] * others <= self.target]
        return [{"time": there[0] / n if there else np.inf}]


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    made, _ = synthetic.least_squares([SAMPLES], DIM, heterogeneity=0.0, noise=1.0, seed=0, dtype=torch.float64)
    return made.features, made.targets


@dataclass(frozen=True)
class Counts(Plan):
    counts: tuple[int, ...] = (1, 2, 4, 8, 16)
    lrs: tuple[float, ...] = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
    target: float = 1e-3
    limit: float = 300.0
    """After this time a run that has not arrived is given up."""


FULL = Counts(seeds=5)
QUICK = Counts(seeds=2, counts=(1, 4), lrs=(0.01, 0.02, 0.04))


def measure(lab: Lab, plan: Counts) -> Tables:
    runs = lab.table(
        [
            Arrival(way, n, lr, seed, plan.target, plan.limit)
            for way in WAYS
            for n in plan.counts
            for lr in plan.lrs
            for seed in range(plan.seeds)
        ]
    )
    by_lr = runs.groupby(["way", "nodes", "lr"], sort=False)["time"].mean().reset_index()
    best = by_lr.loc[by_lr.groupby(["way", "nodes"], sort=False)["time"].idxmin()].reset_index(drop=True)
    alone = best[best["nodes"] == 1].set_index("way")["time"]
    return {"times": best.assign(speedup=best["way"].map(alone) / best["time"])}


def figure(tables: Tables, plan: Counts) -> Figure:
    picture, (a,) = style.panels(1, 1, width=5.0, height=3.2)
    a.plot(plan.counts, plan.counts, color="0.6", ls=":", label="ideal")
    for (way, label), mark, colour in zip(WAYS.items(), style.MARKS, ("#0072B2", "#D55E00"), strict=False):
        some = tables["times"]
        some = some[some["way"] == way]
        a.plot(some["nodes"], some["speedup"], marker=mark, ms=4, color=colour, label=label)
    a.set(
        xlabel="nodes", ylabel="speedup over one node", xscale="log", yscale="log", title="DSGT, least squares, a ring"
    )
    a.set_xticks(plan.counts, [str(n) for n in plan.counts], minor=False)
    a.legend()
    return picture


def findings(tables: Tables, plan: Counts) -> list[str]:
    return [
        f"{label}: speedup "
        + ", ".join(f"n = {r['nodes']}: {r['speedup']:.2f} (lr {r['lr']:g})" for r in records(some) if r["nodes"] > 1)
        for way, label in WAYS.items()
        for some in [tables["times"][tables["times"]["way"] == way]]
    ]


EXPERIMENT = Experiment(
    claim="Where only node 1 has a loss the speedup cannot be linear",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
