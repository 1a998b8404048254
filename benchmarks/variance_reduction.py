"""What docs/variance-reduction.md quotes: oracles with memory against plain gradients.

    python benchmarks/variance_reduction.py [figure | speed]

``figure`` prints how far each method is from the optimum after so many gradients, and draws
docs/figures/variance-reduction.png. Every gradient of a sample counts, full passes and second points too. Logistic
regression on the digits, their mean image taken off, and least squares on random samples, both spread unevenly over
eight nodes of a ring, float64; each method with the learning rate of a grid that reaches 1e-10 first, or else comes
nearest. ``speed`` prints the CPU time of a round of ``dsgt.run``, measured in turns.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from timing import goal

import dsgt
from dsgt import metrics, topologies
from dsgt.algorithms.named import method
from dsgt.comparison.figure import COLOURS, MARKERS, REFERENCE, STYLE
from dsgt.data import Shards, WithReplacement, digits, synthetic
from dsgt.data.partition import dirichlet
from dsgt.problems import LeastSquares, Logistic
from dsgt.problems.erm import EmpiricalRisk

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "variance-reduction.png"
F64 = torch.float64
NODES, PARTS = 8, 20
W = topologies.metropolis(topologies.ring(NODES))
PLAIN, EXACT, IMPLICIT = "DSGT", "DSGT, all samples every round", "DSBA"
METHODS = {
    PLAIN: "dsgt",
    EXACT: "dsgt",
    "GT-HSGD, beta = 0.05": "gt-hsgd:beta=0.05",
    "GT-SARAH": f"gt-sarah:every={PARTS}",
    "GT-SVRG": f"gt-svrg:every={PARTS}",
    "GT-SAGA": f"gt-saga:q={PARTS}",
    "DSA": f"dsa:q={PARTS}",
    "diffusion-AVRG": f"diffusion-avrg:q={PARTS}",
    IMPLICIT: f"dsba:q={PARTS}",
}
GOAL = 1e-10
Curve = list[tuple[float, float]]
"""(epochs, relative distance)"""


@dataclass(frozen=True)
class Panel:
    title: str
    problem: EmpiricalRisk
    """Its batches are a twentieth of a shard, like the parts."""
    epochs: int
    largest: float
    """Of the grid of learning rates."""
    fan: tuple[float, ...]
    """The learning rates at which plain DSGT is drawn, each with its floor of noise."""
    shown: tuple[int, ...]
    """Epochs in the table."""
    left_out: tuple[str, ...] = ()

    @property
    def grid(self) -> list[float]:
        return [self.largest * 0.5 ** (i / 2) for i in range(11)]


def logistic() -> Panel:
    data, _ = digits(dtype=F64)
    shards = dirichlet(data.targets, NODES, alpha=0.5, seed=2)
    centred = data.features - data.features.mean(dim=0)
    p = Logistic((centred, data.targets), shards, WithReplacement(eta=1 / PARTS), l2=0.05)
    return Panel("logistic regression", p, 150, 1.6, (0.8, 0.2, 0.05), (10, 25, 50, 100, 150), (IMPLICIT,))


def least_squares() -> Panel:
    samples, shards = synthetic.least_squares([40 * (i + 1) for i in range(NODES)], 30, dtype=F64)
    p = LeastSquares(samples, shards, WithReplacement(eta=1 / PARTS), l2=0.05)
    return Panel("least squares", p, 80, 0.4, (0.1, 0.025, 0.00625), (10, 25, 50, 80))


def curve(name: str, panel: Panel, lr: float) -> Curve:
    """Until the epochs are used up."""
    exact = name == EXACT
    p = panel.problem.full() if exact else panel.problem
    measured = {"epochs": metrics.epochs, "distance": metrics.distance}
    most = panel.epochs if exact else panel.epochs * PARTS  # no oracle looks at less than a part a round
    try:
        result = dsgt.run(
            method(METHODS[name]), p, W, rounds=most, lr=lr, every=1 if exact else PARTS // 2, metrics=measured
        )
    except dsgt.DivergedError:
        return []
    first = result.rows[0]["distance"]
    return [(row["epochs"], row["distance"] / first) for row in result.rows if row["epochs"] <= panel.epochs]


def to_goal(found: Curve) -> float:
    """The epochs it takes to stay below the goal; infinite where it never does."""
    above = [e for e, d in found if d > GOAL]
    return above[-1] if above[-1] < found[-1][0] else math.inf


def best(name: str, panel: Panel) -> tuple[float, Curve]:
    found = [(lr, curve(name, panel, lr)) for lr in panel.grid]
    return min(((lr, c) for lr, c in found if c), key=lambda one: (to_goal(one[1]), one[1][-1][1]))


def figure() -> None:
    drawn = Figure(figsize=(7.2, 3.6), layout="constrained")
    for axes, panel in zip(drawn.subplots(1, 2, sharey=True), (logistic(), least_squares()), strict=True):
        draw(axes, panel)
    drawn.axes[0].set(ylabel="distance to the optimum, relative", yscale="log", ylim=(1e-13, 3))
    handles, labels = drawn.axes[1].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, handlelength=2.4)
    drawn.savefig(FIGURE)
    p = logistic().problem
    epochs = dsgt.run(dsgt.DSBA(q=PARTS), p, W, rounds=100, lr=0.8, metrics={"epochs": metrics.epochs}).rows[-1][
        "epochs"
    ]
    print(f"a round of DSBA on logistic regression takes {epochs / 100:.2g} epochs: {PARTS * epochs / 100:.0f} "
          "gradients of a part")  # fmt: skip


def draw(axes: Axes, panel: Panel) -> None:
    table = Table("method", "lr", *(f"after {e} epochs" for e in panel.shown), f"epochs to {GOAL:g}")
    for i, lr in enumerate(panel.fan):
        found = curve(PLAIN, panel, lr)
        axes.plot(*zip(*found, strict=True), color="0.65", lw=0.8, label="DSGT, three lr" if i == 0 else None)
    for name in METHODS:
        if name in panel.left_out:
            continue
        lr, found = best(name, panel)
        after = [[d for e, d in found if e <= epochs][-1] for epochs in panel.shown]
        goal = "never" if math.isinf(to_goal(found)) else f"{to_goal(found):.0f}"
        table.add_row(name, f"{lr:.2g}", *(f"{d:.1e}" for d in after), goal)
        if name != PLAIN:
            marked = max(1, len(found) // 8)
            where = len(axes.lines) * marked // 10, marked  # not over those of a curve beneath
            axes.plot(*zip(*found, strict=True), label=name, markevery=where, **look(name))
    axes.set(xlabel="gradients of samples, in passes over the data", title=panel.title, xlim=(0, panel.epochs))
    axes.grid(alpha=0.3)
    sizes = panel.problem.shards.sizes.tolist()
    Console(width=170).print(f"{panel.title}, shards of {min(sizes)} to {max(sizes)} samples", table)


def look(name: str) -> dict[str, Any]:
    if name == EXACT:
        return {"color": REFERENCE, "ls": "--"}
    i = [m for m in METHODS if m not in (PLAIN, EXACT)].index(name)
    last = {"color": "black", "marker": "X"}
    return last if i == len(COLOURS) else {"color": COLOURS[i], "marker": MARKERS[i]}


def speed() -> None:
    """n = 24, d = 50, q = 100, a batch as large as a part."""
    n, d, q, b, rounds = 24, 50, 100, 10, 1500
    draw = torch.Generator().manual_seed(0)
    A = torch.randn(n * q * b, d, generator=draw, dtype=F64)
    labels = (A @ torch.randn(d, generator=draw, dtype=F64) > 0).long()
    shards = Shards.of(torch.arange(len(A)).split(q * b))
    p = Logistic((A, labels), shards, WithReplacement(batch=n * b), l2=1e-3)
    ring = topologies.metropolis(topologies.ring(n))
    oracles = {"EXTRA": None, "+ SAGA": dsgt.SAGA(q), "+ SVRG": dsgt.SVRG(q), "+ AVRG": dsgt.AVRG(q)}
    times: dict[str, list[float]] = {name: [] for name in oracles}

    def seconds(oracle: Any) -> float:
        begin = time.process_time()
        dsgt.run(dsgt.EXTRA(), p, ring, rounds=rounds, lr=0.05, oracle=oracle, metrics={})
        return (time.process_time() - begin) / rounds

    for _ in range(9):
        for name, oracle in oracles.items():
            times[name].append(seconds(oracle))
    table = Table("", "microseconds a round", "rounds per second, of EXTRA's")
    for name, found in times.items():
        share = statistics.median(a / b for a, b in zip(times["EXTRA"], found, strict=True))
        table.add_row(name, f"{1e6 * statistics.median(found):.0f}", f"{share:.2f}")
        if name != "EXTRA":
            goal(f"rounds per second, EXTRA {name} / EXTRA", share, least=0.5)
    Console(width=120).print(table)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with mpl.rc_context(STYLE):
        for part in sys.argv[1:] or ["figure", "speed"]:
            {"figure": figure, "speed": speed}[part]()
