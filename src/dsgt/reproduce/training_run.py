"""A training run as a case: data, model, method, network, learning rate, seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import networkx as nx
from torch import Tensor

from dsgt import metrics, topologies
from dsgt.algorithms import ALGORITHMS
from dsgt.core import Algorithm, Matrix, Mix, Needs
from dsgt.divergence import DivergedError
from dsgt.problems.named import named_problem
from dsgt.reproduce.cases import Row
from dsgt.run import run
from dsgt.threads import threads

MEASURED: dict[str, metrics.Metric] = {
    "epochs": metrics.epochs,
    "loss": metrics.loss,
    "accuracy": metrics.accuracy,
    "consensus": metrics.consensus,
}
OWN: dict[str, metrics.Metric] = {"own": metrics.node_accuracy_mean, "worst": metrics.node_accuracy_min}


@dataclass(frozen=True)
class TrainingRun:
    """One run. Everything but the place of the data determines its rows."""

    data: str
    model: str
    method: str
    weights: str
    nodes: int
    lr: float
    seed: int
    epochs: float
    batch: int
    every: float = 1.0
    """Epochs between two measurements; the start and the end are always measured."""
    partition: str = "equal"
    own_every: float = 0.0
    """Epochs between two measurements of the nodes' own test accuracies, their mean and the worst; 0: never."""
    measured: int = 0
    """On how many training samples (and test samples, at most) the model is measured, always the same; 0: on all."""
    unchecked: bool = False
    """Whether the method may be given weights that it is not made for."""
    data_dir: Path | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.model}, {self.method} ({self.weights}) at lr {self.lr:g}, {self.nodes} nodes, seed {self.seed}"

    def __call__(self) -> list[Row]:
        """The metric rows; the last has an infinite loss where the run diverged."""
        problem = named_problem(
            self.data,
            self.model,
            nodes=self.nodes,
            partition=self.partition,
            batch=self.batch,
            seed=self.seed,
            root=self.data_dir,
        )
        if self.measured:
            problem = problem.measured_on(self.measured)
        method: Algorithm[Any] = ALGORITHMS[self.method]()
        if self.unchecked:
            method = Unchecked(method)
        rounds = max(1, round(self.epochs / problem.epochs_per_round))
        every = max(1, round(self.every / problem.epochs_per_round))
        own_every = every * round(self.own_every / self.every)  # where the mean model is measured too
        own = {} if not own_every else {name: metrics.Seldom(m, own_every, rounds) for name, m in OWN.items()}
        rows: list[Row] = []
        try:
            with threads(1):  # the numbers must not depend on how many cores there are
                run(
                    method,
                    problem,
                    weights(self.weights, self.nodes),
                    rounds=rounds,
                    lr=self.lr,
                    every=every,
                    metrics=MEASURED | own,
                    seed=self.seed,
                    watch=rows.append,
                )
        except DivergedError as error:
            rows.append({"round": error.k, "epochs": error.k * problem.epochs_per_round, "loss": math.inf})
        return rows


def graph(nodes: int) -> nx.Graph[int]:
    """The paper's: 2 log2 n neighbours on average. One graph for all methods and seeds."""
    return topologies.random_graph(nodes, seed=0)


@lru_cache
def weights(rule: str, nodes: int) -> Matrix:
    """Of the paper's graph. "all" averages everyone; "lifted-fdla" is what D² may use of FDLA."""
    if rule == "all" or nodes == 1:
        return topologies.averaging(nodes)
    if rule == "lifted-fdla":
        return topologies.lift(topologies.fdla(graph(nodes)).W, -1 / 3)
    return topologies.WEIGHTS[rule](graph(nodes))


class Unchecked(Algorithm[Any]):
    """A method that takes any symmetric weights, to show what happens with those that it is not made for."""

    needs = Needs()

    def __init__(self, method: Algorithm[Any]) -> None:
        self.method = method

    def init(self, x: Tensor, mix: Mix) -> Any:
        return self.method.init(x, mix)

    def update(self, s: Any, g: Tensor, mix: Mix, lr: float) -> Any:
        return self.method.update(s, g, mix, lr)
