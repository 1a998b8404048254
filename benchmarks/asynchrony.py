"""What docs/asynchrony.md quotes: when is it worth not to wait? And how fast events are simulated.

    python benchmarks/asynchrony.py [table | speed] [seeds]

``table``: virtual seconds, a mean gradient takes one, until the mean model is within a gap of the optimal loss, each
method at its best learning rate of a grid. Logistic regression whose nodes hold different data, exact gradients,
16 nodes on a random graph of degree 4; 51 parameters; log-normal times of spread 0.1 where nothing else is said, and a
latency of 0.05. A seed makes data, graph and times. No wall-clock time is in it.
``speed``: wakes a second of one core (CPU time, the best of several), for one run and for a grid of 21; memory.
"""

from __future__ import annotations

import math
import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from timing import goal

import dsgt
from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.run import Grid
from dsgt.data import partition
from dsgt.data.samples import Samples
from dsgt.data.sampling import Full, Sampling, WithReplacement
from dsgt.networks import Clocked, slowed, stragglers
from dsgt.problems import Logistic
from dsgt.topologies import lift, metropolis, random_regular

GAPS = (1e-2, 1e-5)
MOST = 2500
"""Virtual seconds after which a method has not made it."""
NODES = 16
LRS = [2.0 ** (i / 2) for i in range(-8, 13)]

Place = Callable[[int, object], Clocked]
SITUATIONS: dict[str, Place] = {
    "equal nodes": lambda seed, W: _place(seed, W),
    "log-normal, spread 0.8": lambda seed, W: _place(seed, W, spread=0.8),
    "one of 16 ten times slower": lambda seed, W: _place(seed, W, slow=10.0),
    "latency of one gradient": lambda seed, W: _place(seed, W, latency=1.0),
    "10 % of the messages lost": lambda seed, W: _place(seed, W, loss=0.1),
}
METHODS = ("dsgt", "d2", "asy-sonata", "appg", "ad-psgd")
console = Console(width=140)


def _place(
    seed: int, W: object, *, spread: float = 0.1, slow: float = 1.0, latency: float = 0.05, loss: float = 0.0
) -> Clocked:
    compute = slowed(stragglers(NODES, mean=1, spread=spread, seed=seed), {3: slow}, nodes=NODES)
    return Clocked(W, compute=compute, latency=latency, loss=loss, seed=seed)


def problem(seed: int, nodes: int = NODES, each: int = 40, sampling: Sampling | None = None) -> Logistic:
    """Every node's features have a mean of their own, and its labels lean to one side."""
    made = torch.Generator().manual_seed(seed)
    centre = 0.7 * torch.randn(nodes, 1, 50, generator=made, dtype=torch.float64)
    A = centre + torch.randn(nodes, each, 50, generator=made, dtype=torch.float64)
    w = torch.randn(50, generator=made, dtype=torch.float64) / math.sqrt(50)
    noise = 0.5 * torch.randn(nodes, each, generator=made, dtype=torch.float64)
    data = Samples(A.reshape(-1, 50), ((A @ w + noise).reshape(-1) > 0).long())
    shards = partition.by_column(torch.arange(nodes).repeat_interleave(each).tolist())
    return Logistic(data, shards, sampling or Full(), l2=1e-2)


def in_events(name: str, where: Logistic, place: Callable[[], Clocked], best: float) -> list[float]:
    """When the first of the learning rates is at each gap."""
    grid = Grid(ASYNCHRONOUS[name](), where, place(), lrs=LRS, metrics={})
    found = [math.nan] * len(GAPS)
    for seconds in range(1, MOST + 1):
        grid.events.advance(float(seconds))
        mean = torch.stack([torch.as_tensor(node.state.x) for node in grid.nodes]).mean(dim=0)
        gap = float((where.loss(mean) - best).nan_to_num(nan=math.inf).min())
        found = [float(seconds) if math.isnan(f) and gap < g else f for f, g in zip(found, GAPS, strict=True)]
        if not any(map(math.isnan, found)):
            break
    return found


def in_rounds(name: str, where: Logistic, place: Callable[[], Clocked], best: float) -> list[float]:
    found = [math.inf] * len(GAPS)
    for lr in LRS:
        network = place()
        states = dsgt.iterate(dsgt.ALGORITHMS[name](), where.oracle(0), network, where.start(0), lr)
        left = list(range(len(GAPS)))
        try:
            for state in states:
                gap = float(where.loss(state[0].mean(dim=0)) - best)
                for g in [g for g in left if gap < GAPS[g]]:
                    found[g] = min(found[g], network.seconds)
                    left.remove(g)
                if not left or network.seconds > min(MOST, max(found)) or not math.isfinite(gap) or gap > 10:
                    break
        except dsgt.DivergedError:
            continue
    return [f if math.isfinite(f) else math.nan for f in found]


def table(seeds: int) -> None:
    tables = [Table("", *METHODS, title=f"virtual seconds to a gap of {gap:g}, {seeds} seeds") for gap in GAPS]
    for situation, place in SITUATIONS.items():
        cells: list[list[str]] = [[] for _ in GAPS]
        for name in METHODS:
            per_seed = []
            for seed in range(seeds):
                where = problem(seed)
                assert where.optimum is not None
                best = float(where.loss(where.optimum))
                W = metropolis(random_regular(NODES, degree=4, seed=seed))
                usable = lift(W, -1 / 3) if name == "d2" else W
                go = in_events if name in ASYNCHRONOUS else in_rounds
                per_seed.append(go(name, where, partial(place, seed, usable), best))
            for g, column in enumerate(zip(*per_seed, strict=True)):
                cells[g].append(_cell(column))
            print(situation, name, [c[-1] for c in cells], file=sys.stderr, flush=True)
        for made, row in zip(tables, cells, strict=True):
            made.add_row(situation, *row)
    for made in tables:
        console.print(made)


def _cell(values: tuple[float, ...]) -> str:
    if any(map(math.isnan, values)):
        return f"over {MOST}"
    return f"{statistics.fmean(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def made(name: str, *, runs: int = 1, nodes: int = 24, slow: float = 1.0, latency: float = 0.05) -> Grid:
    where = problem(0, nodes, sampling=WithReplacement(batch=16 * nodes))
    compute = slowed(stragglers(nodes, mean=1, spread=0.3, seed=0), {3: slow}, nodes=nodes)
    network = Clocked(metropolis(random_regular(nodes, degree=4)), compute=compute, latency=latency)
    return Grid(ASYNCHRONOUS[name](), where, network, lrs=np.linspace(0.01, 0.2, runs).tolist(), metrics={})


def wakes_a_second(grid: Grid, seconds: float, repeats: int) -> float:
    grid.events.advance(5.0)  # what is drawn in blocks is drawn
    found = []
    for _ in range(repeats):
        before, begin = grid.events.wakes, time.process_time()
        grid.events.advance(grid.events.now + seconds)
        found.append((grid.events.wakes - before) / (time.process_time() - begin))
    return max(found)


def memory() -> None:
    """Of this process, while a slow node makes letters wait."""
    events = made("asy-sonata", slow=10.0, latency=0.5).events
    while events.events < 1_000_000:
        events.advance(events.now + 2000)
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
        print(f"{events.events:,} events, {resident:.1f} MB")


def speed() -> None:
    memory()
    for name in ASYNCHRONOUS:
        one = wakes_a_second(made(name), 40, 9)
        many = 21 * wakes_a_second(made(name, runs=21), 20, 5)
        print(f"{name}: {one:,.0f} wakes/s; a grid of 21 {many:,.0f} in all, {many / one:.1f} times")
        goal(f"{name}, wakes a second of one core", one, least=15_000)
        goal(f"{name}, wakes of a grid of 21 / of one run", many / one, least=10)
    print(f"n = 1000: {wakes_a_second(made('asy-sonata', nodes=1000), 3, 1):,.0f} wakes/s")


if __name__ == "__main__":
    what, *given = sys.argv[1:] or ["table"]
    torch.set_num_threads(1)
    with torch.no_grad(), np.errstate(all="ignore"):
        table(int(given[0]) if given else 3) if what == "table" else speed()
