"""Network independence (section 5.1): for a small step the rounds to a target do not depend on rho, for a large one
they do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from dsgt import topologies
from dsgt.algorithms import ALGORITHMS
from dsgt.core import Matrix
from dsgt.data.names import named_data, named_partition
from dsgt.data.sampling import WithReplacement
from dsgt.divergence import DivergedError
from dsgt.problems import Logistic
from dsgt.reproduce import style
from dsgt.reproduce.cases import Row
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables, records
from dsgt.run import iterate
from dsgt.threads import threads

NODES, BATCH, L2 = 32, 256, 1e-2
TARGET = 0.1
"""The excess loss to reach, of the excess loss at the start; averaged over the nodes' own models."""
GRAPHS = (
    "path", "ring", "grid", "torus", "star", "binary-tree", "small-world", "random-geometric", "erdos-renyi",
    "random-regular", "hypercube", "exponential", "random", "complete",
)  # fmt: skip
RULES = ("metropolis", "lazy-metropolis", "fdla")
MARKS = {"metropolis": "o", "lazy-metropolis": "s", "fdla": "^"}
STEPS = {0.02: ("small step", 3000), 0.5: ("large step", 400)}
"""Learning rates, and how many rounds they may take: several times what ρ = 0 needs."""


@dataclass(frozen=True)
class OneGraph:
    """Rounds until the nodes' own models have reached the target on average."""

    graph: str
    rule: str
    method: str
    lr: float
    seed: int
    rounds: int

    def __call__(self) -> list[Row]:
        with threads(1), torch.no_grad():
            return [self._row()]

    def _row(self) -> Row:
        problem, W, target = digits(self.seed), network(self.graph, self.rule), target_loss()
        every = max(1, round(0.2 / self.lr))  # measuring costs more than a round
        about = {
            "rho": topologies.rho(W),
            "lowest_eigenvalue": topologies.smallest_eigenvalue(W),
            "rounds_to_target": math.inf,
        }
        states = iterate(ALGORITHMS[self.method](), problem.oracle(self.seed), W, problem.start(0), self.lr)
        try:
            for k, state in enumerate(islice(states, self.rounds + 1)):
                if k % every == 0 and float(problem.loss(state.x).mean()) <= target:
                    return about | {"rounds_to_target": float(k)}
        except DivergedError:
            pass
        return about


def digits(seed: int) -> Logistic:
    train, _ = named_data("digits", images=False, dtype=torch.float64)
    shards = named_partition("dirichlet:0.5", train, NODES, seed=seed)
    return Logistic(train, shards, WithReplacement(batch=BATCH), l2=L2)


@lru_cache(maxsize=1)
def target_loss() -> float:
    """The same for all shards: it belongs to the samples."""
    problem = digits(0)
    best = problem.optimum
    assert best is not None
    low, high = float(problem.loss(best)), float(problem.loss(problem.start(0)))
    return low + TARGET * (high - low)


def network(graph: str, rule: str) -> Matrix:
    W: Matrix = topologies.WEIGHTS[rule](topologies.named_network(graph, NODES, seed=0).graph)
    return W


@dataclass(frozen=True)
class Graphs(Plan):
    graphs: tuple[str, ...] = GRAPHS
    rules: tuple[str, ...] = RULES
    methods: tuple[str, ...] = ("dsgt", "dpsgd")


FULL = Graphs()
QUICK = Graphs(rules=("metropolis",), graphs=("path", "ring", "grid", "star", "hypercube", "random", "complete"))


def measure(lab: Lab, plan: Graphs) -> Tables:
    cases = [
        OneGraph(graph, rule, method, lr, seed, rounds)
        for lr, (_, rounds) in STEPS.items()
        for method in plan.methods
        for graph in plan.graphs
        for rule in plan.rules
        for seed in range(plan.seeds)
    ]
    table = lab.table(cases)
    averaged = table[table["rho"] < 1e-9].groupby(["method", "lr", "seed"])["rounds_to_target"].min()
    table = table.merge(averaged.rename("ideal").reset_index(), how="left")
    return {"rounds": table.assign(ratio=table["rounds_to_target"] / table["ideal"])}


def networks(table: pd.DataFrame, method: str, lr: float) -> pd.DataFrame:
    """One line per graph and rule of weights, means over the seeds."""
    some = table[(table["method"] == method) & (table["lr"] == lr)]
    return some.groupby(["graph", "rule"], sort=False)[["rho", "ratio"]].mean().reset_index()


def figure(tables: Tables, plan: Graphs) -> Figure:
    picture, panels = style.panels(1, len(STEPS), width=4.0, height=3.0)
    for axes, (lr, (name, _)) in zip(panels, STEPS.items(), strict=True):
        for method in plan.methods:
            for rule in plan.rules:
                some = networks(tables["rounds"], method, lr)
                some = some[some["rule"] == rule]
                shown: dict[str, Any] = {
                    "color": style.COLOURS[method],
                    "marker": MARKS[rule],
                    "ls": "",
                    "ms": 4,
                    "alpha": 0.8,
                }
                good = some[np.isfinite(some["ratio"])]
                axes.plot(1 - good["rho"], good["ratio"], label=f"{style.NAMES[method]}, {rule}", **shown)
                never = 1 - some[~np.isfinite(some["ratio"])]["rho"]
                axes.plot(never, [0.96] * len(never), transform=axes.get_xaxis_transform(), **shown)
        axes.axhline(1.0, color="0.3", lw=0.8)
        axes.set(xlabel="1 − ρ", ylabel="rounds to the target / those with ρ = 0", xscale="log", yscale="log")
        axes.set(title=f"{name}, lr {lr:g} (at the top: never)", ylim=(0.9, 10), yticks=[1, 2, 5, 10])
        axes.yaxis.set_major_formatter("{x:g}")
        axes.invert_xaxis()
    panels[0].legend(loc="center left", fontsize=7)
    picture.suptitle(f"Network independence: digits, {NODES} nodes, one mark per graph")
    return picture


def findings(tables: Tables, plan: Graphs) -> list[str]:
    said = []
    for lr in STEPS:
        for method in plan.methods:
            some = networks(tables["rounds"], method, lr)
            reached = some[np.isfinite(some["ratio"])]
            middle = reached[reached["rho"] <= 0.9]["ratio"].max()
            worst = records(reached.sort_values("ratio"))[-1]
            never = [f"{r['graph']} with {r['rule']}" for r in records(some[~np.isfinite(some["ratio"])])]
            said.append(
                f"{style.NAMES[method]}, lr {lr:g}: {len(reached)} of {len(some)} networks reach the target, after at "
                f"most {worst['ratio']:.2f} times the rounds of ρ = 0 (at ρ = {worst['rho']:.4f}), at most "
                f"{middle:.2f} times for ρ ≤ 0.9" + (f"; never: {', '.join(never)}" if never else "")
            )
    return said


EXPERIMENT = Experiment(
    claim="For small steps DSGT's convergence rate does not depend on the network",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
