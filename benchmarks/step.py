"""What a step of ``Optimizer`` costs beside the same step of another tree of this project: this tree / that one.

    python benchmarks/step.py --base OTHER

Nodes of both trees are processes of this machine, 1, 2 and 4 of each, and take turns: those of the other tree wait
meanwhile. A step is zero_grad, a gradient of ones and step(). CPU seconds of all nodes and all their threads, and not
the clock on the wall, so that a busy machine hits both alike; medians of the ratios of neighbouring turns. Without
--base the milliseconds of this tree alone. Memory is the peak of a node in vectors of the model's size.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
METHODS = ("DSGT", "AtcDPSGD")
STEPS = {62_000: 100, 1_000_000: 20, 10_000_000: 4}
"""In a turn, for every size of a model."""

NODE = """
import gc, json, os, sys, time
from pathlib import Path
import numpy as np, torch
from torch import nn
import dsgt

torch.set_num_threads(1)
n = int(os.environ["WORLD_SIZE"])
hop = np.roll(np.eye(n), 1, axis=1)
network = dsgt.networks.TorchPeers(0.6 * np.eye(n) + 0.2 * hop + 0.2 * hop.T)
made = {}

def optimizer(method, m):
    p = nn.Parameter(torch.zeros(m))
    return p, dsgt.Optimizer([p], getattr(dsgt, method)(), network, lr=1e-3)

def steps(p, opt, count):
    for _ in range(count):
        opt.zero_grad()
        (p.sum() * (1 + network.node)).backward()
        opt.step()
    dsgt.settle(opt._state)

def peak(method, m):
    steps(*optimizer(method, 1), 1)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    steps(*optimizer(method, m), 4)
    high = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    return (high - before) / (4 * m)

with network:
    for line in sys.stdin:
        what, method, m, count = json.loads(line)
        if what == "peak":
            found = peak(method, m)
        else:
            if (method, m) not in made:
                made.clear()
                made[method, m] = optimizer(method, m)
                steps(*made[method, m], 5)
            network.mean(torch.zeros(1, dtype=torch.float64))
            began = time.process_time()
            steps(*made[method, m], count)
            found = time.process_time() - began
        print("FOUND", found, flush=True)
"""


class Nodes:
    """The processes of one tree, which do what they are told and say what it took."""

    def __init__(self, tree: Path, n: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        here = {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(n)}
        here |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-c", NODE],
                env=os.environ | here | {"RANK": str(i)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for i in range(n)
        ]

    def told(self, *words: Any) -> list[float]:
        """What every node says."""
        for process in self._processes:
            assert process.stdin is not None
            print(json.dumps(words), file=process.stdin, flush=True)
        return [self._answer(process) for process in self._processes]

    @staticmethod
    def _answer(process: subprocess.Popen[str]) -> float:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("FOUND"):
                return float(line.split()[1])
        raise SystemExit("a node has ended")

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            process.wait()


def compare(jobs: dict[str, Nodes], method: str, m: int, turns: int) -> dict[str, list[float]]:
    """CPU milliseconds of a step, all nodes together, in every turn."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(turns + 1):
        for name, nodes in jobs.items():
            seconds = sum(nodes.told("steps", method, m, STEPS[m]))
            if turn:  # the first loads things
                found[name].append(1e3 * seconds / STEPS[m])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="another tree of this project, with its src/ folder")
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--sizes", type=int, nargs="*", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    trees = ({"base": given.base.resolve()} if given.base else {}) | {"this": HERE}
    columns = "".join(f"{name + ' ms':>10}" for name in trees)
    print(f"nodes  method            m{columns}" + "   this / base (quarters)" * bool(given.base) + "   m-vectors")
    for n in given.nodes:
        for method in given.methods:
            jobs = {name: Nodes(tree, n) for name, tree in trees.items()}
            # first, before there is memory to be used again
            peaks = {name: max(nodes.told("peak", method, max(given.sizes), 0)) for name, nodes in jobs.items()}
            for m in given.sizes:
                found = compare(jobs, method, m, given.turns)
                line = f"{n:5}  {method:9} {m:>10,d}" + "".join(f"{statistics.median(v):10.2f}" for v in found.values())
                if given.base:
                    low, middle, high = statistics.quantiles(
                        [a / b for a, b in zip(found["this"], found["base"], strict=True)], n=4
                    )
                    line += f"{middle:14.3f} ({low:.3f}, {high:.3f})"
                if m == max(given.sizes):
                    line += "   " + ", ".join(f"{name} {vectors:.1f}" for name, vectors in peaks.items())
                print(line, flush=True)
            for nodes in jobs.values():
                nodes.close()


if __name__ == "__main__":
    main()
