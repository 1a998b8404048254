"""Example 2: every node holds copies of one sample, so its gradients carry no noise, while those of the union do."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from matplotlib.figure import Figure

from dsgt import metrics, topologies
from dsgt.algorithms import ALGORITHMS
from dsgt.data import Bernoulli, Shards, WithReplacement, partition, synthetic
from dsgt.data.sampling import Sampling
from dsgt.problems import LeastSquares
from dsgt.reproduce import style
from dsgt.reproduce.cases import Row
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables
from dsgt.run import run
from dsgt.threads import threads

NODES, DIM = 20, 5
CASES = {
    "DSGT, batch 1 of 2 equal samples": ("dsgt", "replacement", 0.05),
    "D-PSGD, the same": ("dpsgd", "replacement", 0.05),
    "DSGT, Bernoulli sampling (E6)": ("dsgt", "bernoulli", 0.05),
    "centralized SGD": ("sgd", "replacement", 0.05),
    "centralized SGD, a tenth of the step": ("sgd", "replacement", 0.005),
}
"""Method, sampling and learning rate. Every round draws as many samples as there are nodes."""


@dataclass(frozen=True)
class Duplicates:
    """Least squares over nodes that hold two equal samples each; SGD draws from all of them."""

    name: str
    rounds: int
    seed: int

    def __call__(self) -> list[Row]:
        method, drawn, lr = CASES[self.name]
        made, _ = synthetic.least_squares([1] * NODES, DIM, heterogeneity=1.0, noise=0.5, seed=0, dtype=torch.float64)
        samples, shards = partition.duplicates(made, copies=2)
        W = topologies.metropolis(topologies.ring(NODES))
        if method == "sgd":
            shards, W = Shards(torch.arange(2 * NODES), torch.tensor([2 * NODES])), topologies.averaging(1)
        sampling: Sampling = WithReplacement(batch=NODES) if drawn == "replacement" else Bernoulli(0.5)
        problem = LeastSquares(samples, shards, sampling)
        wanted = {"gap": metrics.gap, "distance": metrics.distance}
        with threads(1):
            found = run(
                ALGORITHMS[method](), problem, W,
                rounds=self.rounds, lr=lr, every=max(1, self.rounds // 200), metrics=wanted, seed=self.seed,
            )  # fmt: skip
        return list(found.rows)


@dataclass(frozen=True)
class Rounds(Plan):
    rounds: int = 4000


FULL = Rounds(seeds=5, rounds=8000)
QUICK = Rounds(seeds=2, rounds=4000)


def measure(lab: Lab, plan: Rounds) -> Tables:
    return {"curves": lab.table([Duplicates(n, plan.rounds, seed) for n in CASES for seed in range(plan.seeds)])}


def figure(tables: Tables, plan: Rounds) -> Figure:
    picture, (a,) = style.panels(1, 1, width=7.0, height=3.2)
    colours = [style.COLOURS[m] for m in ("dsgt", "dpsgd", "gnsd", "sgd", "exact-diffusion")]
    for name, colour in zip(CASES, colours, strict=True):
        some = tables["curves"][tables["curves"]["name"] == name]
        style.band(
            a, some, "round", "distance", colour=colour, label=name, line="--" if CASES[name][0] == "sgd" else "-"
        )
    a.set(xlabel="round", ylabel="distance from the optimum", yscale="log")
    a.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    picture.suptitle(f"Example 2: {NODES} nodes on a ring, each with two copies of its own sample")
    return picture


def findings(tables: Tables, plan: Rounds) -> list[str]:
    curves = tables["curves"]
    late = curves[curves["round"] > 0.8 * plan.rounds]
    ends = late.groupby("name", sort=False)["distance"].mean()
    return [f"{name}: distance from the optimum {value:.1e} (mean of the last fifth)" for name, value in ends.items()]


EXPERIMENT = Experiment(
    claim="With duplicated samples DSGT's stochastic gradients are exact, and it beats centralized SGD",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
