"""ResNet-20 with group normalisation on label-skewed shards: what the field compares today, not in the paper.

16 nodes, a ring and an exponential graph, Dirichlet 0.1 and 1, methods without and with momentum. All methods have the
same weights, lazy Metropolis: on a ring of an even number of nodes the plain ones are just beyond what D² may use.
Every method has its own learning rate on each network and each partition, chosen in a quarter of the epochs and with a
seed that is not reported, as in figures 2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

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
from dsgt.reproduce.grids import Grids, grown
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables, records
from dsgt.reproduce.paper import TUNING_SEED
from dsgt.run import run
from dsgt.threads import threads

METHODS = {
    "dpsgd": ("D-PSGD", "#D55E00"),
    "d2": ("D²", "#009E73"),
    "dsgt": ("DSGT", "#0072B2"),
    "momentum-tracking": ("Momentum Tracking", "#56B4E9"),
    "qg-dsgdm": ("QG-DSGDm", "#CC79A7"),
    "decentlam": ("DecentLaM", "#E69F00"),
}
"""As figures call them, and in which colour."""
MOMENTUM = ("momentum-tracking", "qg-dsgdm", "decentlam")
"""With momentum 0.9, which multiplies a step by ten in the long run."""
LADDER = (0.0015, 0.005, 0.015, 0.05, 0.15, 0.5, 1.5, 5.0)
CELL = ["partition", "graph", "method"]
Cell: TypeAlias = tuple[str, str, str]
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
    momentum_lrs: tuple[float, ...] = (0.005, 0.015, 0.05)
    ladder: tuple[float, ...] = LADDER
    """Where the best is the largest or the smallest that was tried, the next of these is tried too."""
    tuning_epochs: float = 2.5
    batch: int = 128
    every: float = 2.0
    measured: int = 4000

    @property
    def panels(self) -> list[list[Cell]]:
        """The methods on every network and partition."""
        return [[(p, graph, m) for m in self.methods] for p in self.partitions for graph in self.graphs]

    def training(self, lab: Lab, cell: Cell, *, lr: float, seed: int, epochs: float, every: float) -> ResNetRun:
        partition, graph, method = cell
        return ResNetRun(
            self.data, self.model, self.images, method, graph, partition, self.nodes, lr, seed, epochs, self.batch,
            every, self.measured, data_dir=lab.data_dir,
        )  # fmt: skip


FULL = Study(data="cifar10", epochs=10.0)
QUICK = Study(
    model="resnet20:width=4", images=400, nodes=4, graphs=("ring",), partitions=("dirichlet:0.1",), lrs=(0.15,),
    momentum_lrs=(0.015,), ladder=(), methods=("dpsgd", "dsgt", "momentum-tracking"), epochs=2.0, tuning_epochs=0.5,
    batch=64, every=1.0, measured=200,
)  # fmt: skip


def measure(lab: Lab, plan: Study) -> Tables:
    """One panel after the other, so that an interrupted study has whole panels."""
    tuning, runs = [], []
    for cells in plan.panels:
        tuning.append(tuned(lab, plan, cells))
        best = best_of(tuning[-1])
        reported = [
            plan.training(lab, cell, lr=best[cell], seed=seed, epochs=plan.epochs, every=plan.every)
            for seed in range(1, plan.seeds + 1)
            for cell in cells
        ]
        runs.append(lab.table(reported))
    return {"tuning": pd.concat(tuning, ignore_index=True), "runs": pd.concat(runs, ignore_index=True)}


def tuned(lab: Lab, plan: Study, cells: Sequence[Cell]) -> pd.DataFrame:
    """The last row of every run of the grids."""
    epochs = min(plan.tuning_epochs, plan.epochs)

    def tuning(grids: Grids[Cell]) -> pd.DataFrame:
        cases = [
            plan.training(lab, cell, lr=lr, seed=TUNING_SEED, epochs=epochs, every=epochs)
            for cell, lrs in grids.items()
            for lr in sorted(lrs)
        ]
        return lab.table(cases).groupby([*CELL, "lr"], sort=False).tail(1).reset_index(drop=True)

    start = {cell: {*(plan.momentum_lrs if cell[2] in MOMENTUM else plan.lrs)} for cell in cells}
    return tuning(grown(start, plan.ladder, lambda grids: best_of(tuning(grids))))


def best_of(tuning: pd.DataFrame) -> dict[Cell, float]:
    """The learning rate of the lowest loss, of two the smaller."""
    best = tuning.loc[tuning.groupby(CELL, sort=False)["loss"].idxmin()]
    return {(r["partition"], r["graph"], r["method"]): r["lr"] for r in records(best)}


def ends(tables: Tables) -> pd.DataFrame:
    """The last row of every reported run, averaged over the seeds."""
    by = [*CELL, "lr"]
    last = tables["runs"].groupby([*by, "seed"], sort=False).tail(1)
    return last.groupby(by, sort=False)[["loss", "accuracy", "consensus"]].mean().reset_index()


def figure(tables: Tables, plan: Study) -> Figure:
    picture, panels = style.panels(len(plan.partitions), len(plan.graphs))
    where = [(partition, graph) for partition in plan.partitions for graph in plan.graphs]
    runs = tables["runs"]
    for axes, (partition, graph) in zip(panels, where, strict=True):
        here = runs[(runs["partition"] == partition) & (runs["graph"] == graph)]
        for method, some in here.groupby("method", sort=False):
            name, colour = METHODS[str(method)]
            style.band(axes, some, "epochs", "accuracy", colour=colour, label=f"{name}, lr {some['lr'].iloc[0]:g}",
                       line="--" if method in MOMENTUM else "-")  # fmt: skip
        axes.set(xlabel="epochs", ylabel="test accuracy, mean model", title=f"{graph}, {partition}")
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.4 * (high - low))  # the legend lies above the curves
        axes.legend(loc="upper left", ncols=2, fontsize=6.5)
    picture.suptitle(f"{plan.model} on {plan.images} images of {plan.where}, {plan.nodes} nodes")
    return picture


def findings(tables: Tables, plan: Study) -> list[str]:
    said = [
        f"{r['graph']}, {r['partition']}, {METHODS[r['method']][0]} (lr {r['lr']:g}): "
        + (f"final loss {r['loss']:.3f}, test accuracy {r['accuracy']:.1%}, nodes {r['consensus']:.2g} from their mean"
           if math.isfinite(r["loss"]) else "diverges")
        for r in records(ends(tables))
    ]  # fmt: skip
    best = best_of(tables["tuning"])
    edges = tables["tuning"].groupby(CELL, sort=False)["lr"].agg(["min", "max"])
    said += [
        f"The best learning rate is at the edge of the grid for {METHODS[cell[2]][0]}, {cell[1]}, {cell[0]}."
        for cell, lr in best.items()
        if edges["min"][cell] < edges["max"][cell] and lr in (edges["min"][cell], edges["max"][cell])
    ]
    return said


EXPERIMENT = Experiment(
    claim="(not in the paper) a deep network on label-skewed shards, with and without momentum",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
