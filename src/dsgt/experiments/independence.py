"""Network independence (section 5.1): for a small step the rounds to a target do not depend on rho, for a large one
they do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
import torch
from matplotlib.figure import Figure

from dsgt import topologies
from dsgt.algorithms import ALGORITHMS
from dsgt.core import Matrix
from dsgt.data.names import named_data, named_partition
from dsgt.data.sampling import WithReplacement
from dsgt.experiments import style
from dsgt.experiments.cases import Row
from dsgt.experiments.lab import Experiment, Lab, Plan, Tables, records
from dsgt.problems import Logistic
from dsgt.run import DivergedError, iterate
from dsgt.threads import threads

NODES, BATCH, L2 = 32, 256, 1e-2
TARGET = 0.1
"""The excess loss to reach, of the excess loss at the start; averaged over the nodes' own models."""
GRAPHS = (
    "path", "ring", "grid", "torus", "star", "binary-tree", "small-world", "random-geometric", "erdos-renyi",
    "random-regular", "hypercube", "exponential", "random", "complete",
)  # fmt: skip
RULES = ("metropolis", "lazy-metropolis", "fdla")
STEPS = {0.02: "small step", 0.5: "large step"}


@dataclass(frozen=True)
class OneGraph:
    """Rounds until the nodes' own models have reached the target on average."""

    graph: str
    rule: str
    method: str
    lr: float
    seed: int
    epochs: float

    def __call__(self) -> list[Row]:
        with threads(1), torch.no_grad():
            return [self._row()]

    def _row(self) -> Row:
        problem, W, target = digits(self.seed), network(self.graph, self.rule), target_loss()
        rounds = round(self.epochs / problem.epochs_per_round)
        every = max(1, round(0.2 / self.lr))  # measuring costs more than a round
        about = {"rho": topologies.rho(W), "rounds": math.inf}
        states = iterate(ALGORITHMS[self.method](), problem.oracle(self.seed), W, problem.start(0), self.lr)
        try:
            for k, state in enumerate(islice(states, rounds)):
                if k % every == 0 and float(problem.loss(state.x).mean()) <= target:
                    return about | {"rounds": float(k)}
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
    epochs: float = 600.0


FULL = Graphs()
QUICK = Graphs(rules=("metropolis",), graphs=("path", "ring", "grid", "star", "hypercube", "random", "complete"))


def measure(lab: Lab, plan: Graphs) -> Tables:
    cases = [
        OneGraph(graph, rule, method, lr, seed, plan.epochs)
        for lr in STEPS
        for method in plan.methods
        for graph in plan.graphs
        for rule in plan.rules
        for seed in range(plan.seeds)
    ]
    table = lab.table(cases)
    ideal = table[table["rho"] < 1e-9].groupby(["method", "lr", "seed"])["rounds"].min().rename("ideal").reset_index()
    return {"rounds": table.merge(ideal, how="left").assign(ratio=lambda t: t["rounds"] / t["ideal"])}


def figure(tables: Tables, plan: Graphs) -> Figure:
    picture, panels = style.panels(1, len(STEPS), width=4.0)
    table = tables["rounds"]
    for axes, (lr, name) in zip(panels, STEPS.items(), strict=True):
        for method, mark in zip(plan.methods, "ox", strict=False):
            some = table[(table["lr"] == lr) & (table["method"] == method)]
            mean = some.groupby(["graph", "rule"])[["rho", "ratio"]].mean()
            shown = mean[np.isfinite(mean["ratio"])]
            axes.plot(
                1 - shown["rho"], shown["ratio"], mark, color=style.COLOURS[method], ms=4, label=style.NAMES[method]
            )
            for gap in 1 - mean[~np.isfinite(mean["ratio"])]["rho"]:
                axes.plot([gap], [0.98], mark, color=style.COLOURS[method], ms=4, transform=axes.get_xaxis_transform())
        axes.axhline(1.0, color="0.3", lw=0.8)
        axes.set(xlabel="1 − ρ", ylabel="rounds to the target / those with ρ = 0", xscale="log", yscale="log")
        axes.set(title=f"{name}, lr {lr:g}", ylim=(0.8, 60))
        axes.invert_xaxis()
    panels[-1].legend(loc="upper left")
    picture.suptitle(f"Network independence: digits, {NODES} nodes, one dot per graph and rule of weights")
    return picture


def findings(tables: Tables, plan: Graphs) -> list[str]:
    said = []
    table = tables["rounds"]
    for (method, lr), some in table.groupby(["method", "lr"], sort=False):
        mean = some.groupby(["graph", "rule"])[["rho", "ratio"]].mean()
        middle = mean[mean["rho"] <= 0.9]["ratio"].max()
        worst = records(mean.sort_values("rho"))[-1]
        never = int((~np.isfinite(mean["ratio"])).sum())
        said.append(
            f"{style.NAMES[str(method)]}, lr {lr:g}: rounds against those with ρ = 0: at most {middle:.2f} times for "
            f"ρ ≤ 0.9, {worst['ratio']:.2f} times at ρ = {worst['rho']:.4f}; {never} of {len(mean)} networks never "
            f"reach the target"
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
