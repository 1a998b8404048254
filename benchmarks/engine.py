"""What the engine is worth: rounds as they are written, with and without the allocator's setting, and compiled.

    python benchmarks/engine.py            (about three minutes; --turns 1 for a first look)

Every cell is a process of its own, since the allocator's setting holds for a whole process; the cells take turns, and
medians are shown. A round is timed beside the bare products W v that it contains, so that a busy machine hits both.
The last table is a whole small run: under a virtual clock, and without one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import networkx as nx
import torch
from timing import goal, in_turn

import dsgt
from dsgt.buffers import Buffers
from dsgt.data import WithReplacement, digits, partition
from dsgt.engine.allocator import keep_freed_memory
from dsgt.engine.in_place import InPlace
from dsgt.networks import Clocked, Dense
from dsgt.problems import Logistic
from dsgt.topologies import metropolis, ring

NODES = 24
SIZES = {1_000: 400, 62_006: 60, 400_000: 16}
"""Numbers in a model, and rounds."""
WAYS = {"plain, glibc as it is": "off", "plain": "on", "compiled": "on"}
METHODS = {"dsgt": dsgt.DSGT(), "exact-diffusion": dsgt.ExactDiffusion()}


def cell(way: str, method: str, m: int) -> None:
    """One process's part: prints the round in bare products, milliseconds, and megabytes above the start."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    keep_freed_memory()
    W = metropolis(nx.random_regular_graph(9, NODES, seed=0))
    draw = torch.Generator().manual_seed(0)
    x, g = (torch.randn(NODES, m, generator=draw) for _ in range(2))
    bare, out = torch.from_numpy(W).float(), torch.empty(NODES, m)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    algorithm, dense = METHODS[method], Dense(W)
    state = algorithm.init(x.clone(), dense.at(0))
    update = InPlace(algorithm, Buffers()).update if way == "compiled" else algorithm.update
    rounds, products = [], []
    for _ in range(5 + SIZES[m]):
        began = time.perf_counter()
        for _ in range(algorithm.sends):
            torch.mm(bare, x, out=out)
        products.append(time.perf_counter() - began)
        began = time.perf_counter()
        state = update(state, g, dense.at(0), 1e-3)
        rounds.append(time.perf_counter() - began)
    seconds, product = (statistics.median(some[5:]) for some in (rounds, products))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"ratio": seconds / product, "ms": 1e3 * seconds, "MB": (peak - before) / 1024}))


def measured(way: str, method: str, m: int) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).resolve()), "--be", way, method, str(m)]
    done = subprocess.run(
        command, env=os.environ | {"DSGT_ALLOCATOR": WAYS[way]}, capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def rounds(turns: int) -> None:
    print(f"a round of {NODES} nodes on one core, in bare products W v (and the peak of memory above the start)")
    print(f"{'method':16} {'m':>8}  " + "  ".join(f"{way:>22}" for way in WAYS) + "   plain / compiled")
    for method in METHODS:
        for m in SIZES:
            found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for _ in range(turns):
                for way in WAYS:
                    found[way].append(measured(way, method, m))
            middle = {
                way: {key: statistics.median(some[key] for some in all_) for key in all_[0]}
                for way, all_ in found.items()
            }
            cells = "  ".join(f"{c['ratio']:>12.2f} ({c['MB']:>4.0f} MB)" for c in middle.values())
            print(
                f"{method:16} {m:>8,d}  {cells}   {middle['plain']['ratio'] / middle['compiled']['ratio']:.2f}",
                flush=True,
            )


def clocks(turns: int) -> None:
    train, _ = digits()
    shards = partition.dirichlet(train.targets, 12, alpha=0.1, seed=0)
    problem = Logistic(train, shards, WithReplacement(batch=128))
    W = metropolis(ring(12))

    def go(clocked: bool) -> None:
        network = Clocked(W, compute=1e-3, latency=1e-3, bandwidth=1e8) if clocked else Dense(W)
        dsgt.run(dsgt.DSGT(), problem, network, rounds=1500, lr=0.1, every=1500)

    took = in_turn({"clock": lambda: go(True), "none": lambda: go(False)}, turns=2 * turns + 1)
    ratio = took["clock"] / took["none"]
    print(f"a small run (digits, 12 nodes) under a virtual clock / without one  {ratio:.2f}")
    goal("a small run under a virtual clock / without one", ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--be", nargs=3, metavar=("WAY", "METHOD", "M"), help="be one cell (set by this script itself)")
    given = parser.parse_args()
    if given.be:
        cell(given.be[0], given.be[1], int(given.be[2]))
        return
    rounds(given.turns)
    clocks(given.turns)


if __name__ == "__main__":
    main()
