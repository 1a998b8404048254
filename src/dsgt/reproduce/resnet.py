"""ResNet-20 with group normalisation on label-skewed shards: what the field compares today, not in the paper.

16 nodes, a ring and an exponential graph, Dirichlet 0.1 and 1, methods without and with momentum. All methods have the
same weights, lazy Metropolis: on a ring of an even number of nodes the plain ones are just beyond what D² may use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch.nn.functional import cross_entropy

from dsgt import metrics, topologies
from dsgt.algorithms import ALGORITHMS
from dsgt.data.names import named_data, named_partition
from dsgt.data.sampling import WithReplacement
from dsgt.divergence import DivergedError
from dsgt.problems.model import Model
from dsgt.problems.named import built_in
from dsgt.reproduce import style
from dsgt.reproduce.cases import Row
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables, records
from dsgt.run import run
from dsgt.threads import threads

METHODS = {
    "dpsgd": ("D-PSGD", "#D55E00", 1.0),
    "d2": ("D²", "#009E73", 1.0),
    "dsgt": ("DSGT", "#0072B2", 1.0),
    "momentum-tracking": ("Momentum Tracking", "#56B4E9", 0.1),
    "qg-dsgdm": ("QG-DSGDm", "#CC79A7", 0.1),
    "decentlam": ("DecentLaM", "#E69F00", 0.1),
}
"""Name, colour, and what a learning rate is multiplied by: 1 - beta, the momentum being 0.9 (by default) or none."""
MEASURED: dict[str, metrics.Metric] = {
    "epochs": metrics.epochs,
    "loss": metrics.loss,
    "accuracy": metrics.accuracy,
    "consensus": metrics.consensus,
}


@dataclass(frozen=True)
class ResNetRun:
    """One run on some of the training images; loss and accuracy are those of the mean model on ``measured`` of them
    and on as many test images."""

    data: str
    model: str
    images: int
    method: str
    graph: str
    partition: str
    nodes: int
    lr: float
    seed: int
    epochs: float
    batch: int
    every: float
    measured: int
    data_dir: Path | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.method} at lr {self.lr:g}, {self.graph}, {self.partition}"

    def __call__(self) -> list[Row]:
        problem = _problem(
            self.data, self.model, self.images, self.partition, self.nodes, self.batch, self.seed, self.data_dir
        ).measured_on(self.measured)
        W = topologies.lazy_metropolis(topologies.named_network(self.graph, self.nodes).graph)
        rows: list[Row] = []
        try:
            with threads(1):  # the numbers must not depend on how many cores there are
                run(
                    ALGORITHMS[self.method](), problem, W,
                    rounds=max(1, round(self.epochs / problem.epochs_per_round)), lr=self.lr,
                    every=max(1, round(self.every / problem.epochs_per_round)), metrics=MEASURED, seed=self.seed,
                    watch=rows.append,
                )  # fmt: skip
        except DivergedError as error:
            rows.append({"round": error.k, "epochs": error.k * problem.epochs_per_round, "loss": math.inf})
        return rows


@lru_cache(maxsize=1)
def _problem(
    data: str, model: str, images: int, partition: str, nodes: int, batch: int, seed: int, root: Path | None
) -> Model:
    train, test = named_data(data, images=True, root=root)
    some = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[:images]
    train = train.chosen(some)
    module = built_in(model, tuple(train.features.shape[1:]), train.classes, seed)
    shards = named_partition(partition, train, nodes, seed=seed)
    return Model(module, train, shards, WithReplacement(batch=batch), loss=cross_entropy, test=test, strategy="loop")


@dataclass(frozen=True)
class Study(Plan):
    model: str = "resnet20"
    images: int = 10_000
    nodes: int = 16
    graphs: tuple[str, ...] = ("ring", "exponential")
    partitions: tuple[str, ...] = ("dirichlet:0.1", "dirichlet:1")
    methods: tuple[str, ...] = tuple(METHODS)
    lrs: tuple[float, ...] = (0.05, 0.15, 0.5)
    """Without momentum; with it, times 1 - beta."""
    batch: int = 128
    every: float = 2.0
    measured: int = 4000


FULL = Study(data="cifar10", epochs=10.0)
QUICK = Study(
    model="resnet20:width=4", images=400, nodes=4, graphs=("ring",), partitions=("dirichlet:0.1",), lrs=(0.15,),
    methods=("dpsgd", "dsgt", "momentum-tracking"), epochs=2.0, batch=64, every=1.0, measured=200,
)  # fmt: skip


def measure(lab: Lab, plan: Study) -> Tables:
    runs = lab.table(
        [
            ResNetRun(
                plan.data, plan.model, plan.images, method, graph, partition, plan.nodes, lr * METHODS[method][2], seed,
                plan.epochs, plan.batch, plan.every, plan.measured, data_dir=lab.data_dir,
            )
            for seed in range(1, plan.seeds + 1)
            for partition in plan.partitions
            for graph in plan.graphs
            for lr in plan.lrs
            for method in plan.methods
        ]
    )  # fmt: skip
    return {"runs": runs}


def ends(tables: Tables) -> pd.DataFrame:
    """The last row of every run, averaged over the seeds."""
    by = ["partition", "graph", "method", "lr"]
    last = tables["runs"].groupby([*by, "seed"], sort=False).tail(1)
    return last.groupby(by, sort=False)[["loss", "accuracy", "consensus"]].mean().reset_index()


def best(tables: Tables) -> pd.DataFrame:
    """Every method at its learning rate of the lowest final training loss."""
    found = ends(tables)
    return found.loc[found.groupby(["partition", "graph", "method"], sort=False)["loss"].idxmin()]


def figure(tables: Tables, plan: Study) -> Figure:
    picture, panels = style.panels(len(plan.partitions), len(plan.graphs))
    where = [(partition, graph) for partition in plan.partitions for graph in plan.graphs]
    chosen = best(tables)
    for axes, (partition, graph) in zip(panels, where, strict=True):
        for r in records(chosen[(chosen["partition"] == partition) & (chosen["graph"] == graph)]):
            name, colour, _ = METHODS[r["method"]]
            some = tables["runs"]
            for key in ("partition", "graph", "method", "lr"):
                some = some[some[key] == r[key]]
            style.band(axes, some, "epochs", "accuracy", colour=colour, label=f"{name}, lr {r['lr']:g}")
        axes.set(xlabel="epochs", ylabel="test accuracy, mean model", title=f"{graph}, {partition}")
        axes.legend()
    picture.suptitle(f"{plan.model} on {plan.images} images of {plan.where}, {plan.nodes} nodes")
    return picture


def findings(tables: Tables, plan: Study) -> list[str]:
    return [
        f"{r['graph']}, {r['partition']}, {METHODS[r['method']][0]} (lr {r['lr']:g}): final loss {r['loss']:.3f}, test "
        f"accuracy {r['accuracy']:.1%}, nodes {r['consensus']:.2g} from their mean"
        for r in records(best(tables))
    ]


EXPERIMENT = Experiment(
    claim="(not in the paper) a deep network on label-skewed shards, with and without momentum",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
