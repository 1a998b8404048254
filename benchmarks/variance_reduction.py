"""What docs/variance-reduction.md quotes: oracles with memory against plain gradients.

    python benchmarks/variance_reduction.py [figure | speed]

``figure`` prints how far each method is from the optimum after so many gradients, and draws
docs/figures/variance-reduction.png. Every gradient of a sample counts, full passes and second points too. Logistic
regression on the digits, ten classes spread unevenly over eight nodes of a ring, float64; each method with the best
learning rate of a grid. ``speed`` prints the CPU time of a round in the simulator, measured in turns.
"""

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from rich.console import Console
from rich.table import Table

import dsgt
from dsgt import metrics, topologies
from dsgt.algorithms.named import method
from dsgt.data import Shards, WithReplacement, digits
from dsgt.data.partition import dirichlet
from dsgt.problems import Logistic
from dsgt.reproduce.style import STYLE, panels

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "variance-reduction.png"
F64 = torch.float64
NODES, PARTS, EPOCHS = 8, 20, 100
METHODS = {
    "DSGT": "dsgt",
    "GT-HSGD, beta = 0.05": "gt-hsgd:beta=0.05",
    "GT-SAGA": f"gt-saga:q={PARTS}",
    "GT-SVRG": f"gt-svrg:every={PARTS}",
    "GT-SARAH": f"gt-sarah:every={PARTS}",
    "DSA": f"dsa:q={PARTS}",
    "diffusion-AVRG": f"diffusion-avrg:q={PARTS}",
    "DSGT + SAGA": f"dsgt+saga:q={PARTS}",
    "DSGT, all samples": "dsgt",
}
GRID = [0.8 * 0.5**i for i in range(6)]
"""Learning rates."""
SHOWN = (10, 25, 50, 100)
"""Epochs in the table."""


def problem() -> Logistic:
    """Batches are a twentieth of a shard, like the parts."""
    data, _ = digits(dtype=F64)
    shards = dirichlet(data.targets, NODES, alpha=0.5, seed=2)
    return Logistic(data, shards, WithReplacement(eta=1 / PARTS), l2=0.05)


def curve(name: str, p: Logistic, lr: float) -> list[tuple[float, float]]:
    """(epochs, relative distance), until the epochs are used up."""
    exact = name == "DSGT, all samples"
    p = p.full() if exact else p
    W = topologies.metropolis(topologies.ring(NODES))
    measured = {"epochs": metrics.epochs, "distance": metrics.distance}
    most = EPOCHS if exact else EPOCHS * PARTS  # no oracle looks at less than a part a round
    try:
        result = dsgt.run(
            method(METHODS[name]), p, W, rounds=most, lr=lr, every=1 if exact else PARTS // 2, metrics=measured
        )
    except dsgt.DivergedError:
        return []
    first = result.rows[0]["distance"]
    return [(row["epochs"], row["distance"] / first) for row in result.rows if row["epochs"] <= EPOCHS]


def best(name: str, p: Logistic) -> tuple[float, list[tuple[float, float]]]:
    """The learning rate whose last distance is smallest, among those that did not diverge."""
    found = [(lr, curve(name, p, lr)) for lr in GRID]
    return min(((lr, c) for lr, c in found if c), key=lambda one: one[1][-1][1])


def figure() -> None:
    p = problem()
    table = Table("method", "lr", *(f"after {e} epochs" for e in SHOWN))
    shape, (axes,) = panels(1, 1, width=5.6, height=3.6)
    for name in METHODS:
        lr, found = best(name, p)
        after = [min((d for e, d in found if e <= epochs), default=1.0) for epochs in SHOWN]
        table.add_row(name, f"{lr:g}", *(f"{d:.1e}" for d in after))
        plain = name in ("DSGT", "DSGT, all samples")
        axes.semilogy(*zip(*found, strict=True), label=name, lw=1.2, color="0.4" if plain else None)
        if name == "DSGT, all samples":
            axes.lines[-1].set_linestyle("--")
    axes.set(
        xlabel="gradients of samples, over all of them (epochs)", ylabel="distance to the optimum", ylim=(1e-13, 3)
    )
    axes.legend(ncols=2, fontsize="x-small")
    shape.savefig(FIGURE)
    sizes = p.shards.sizes.tolist()
    Console(width=120).print(f"shards of {min(sizes)} to {max(sizes)} samples", table)


def speed() -> None:
    """n = 24, d = 50, q = 100, a batch as large as a part."""
    n, d, q, b = 24, 50, 100, 10
    draw = torch.Generator().manual_seed(0)
    A = torch.randn(n * q * b, d, generator=draw, dtype=F64)
    labels = (A @ torch.randn(d, generator=draw, dtype=F64) > 0).long()
    shards = Shards.of(torch.arange(len(A)).split(q * b))
    p = Logistic((A, labels), shards, WithReplacement(batch=n * b), l2=1e-3)
    W = topologies.metropolis(topologies.ring(n))
    oracles = {"EXTRA": None, "+ SAGA": dsgt.SAGA(q), "+ SVRG": dsgt.SVRG(q), "+ AVRG": dsgt.AVRG(q)}
    times: dict[str, list[float]] = {name: [] for name in oracles}

    def seconds(oracle: Any, rounds: int = 500) -> float:
        states = dsgt.iterate(dsgt.EXTRA(), p.local(0), W, p.start(0), 0.05, oracle=oracle)
        next(islice(states, 20, None))
        begin = time.process_time()
        next(islice(states, rounds - 1, None))
        return (time.process_time() - begin) / rounds

    with torch.no_grad():
        for _ in range(7):
            for name, oracle in oracles.items():
                times[name].append(seconds(oracle))
    table = Table("", "microseconds a round", "rounds per second, of EXTRA's")
    for name, found in times.items():
        table.add_row(name, f"{1e6 * min(found):.0f}", f"{min(times['EXTRA']) / min(found):.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with mpl.rc_context(STYLE):
        for part in sys.argv[1:] or ["figure", "speed"]:
            {"figure": figure, "speed": speed}[part]()
