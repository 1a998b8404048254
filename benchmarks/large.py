"""Rounds of DSGT on large networks: a ring, logistic regression, one thread, and the memory of a run.

    python benchmarks/large.py                    this tree alone
    python benchmarks/large.py --base OTHER       beside another tree of this project, in turn: how many times as fast
    python benchmarks/large.py --million          a million nodes too

m = 50: two classes, 50 features; m = 650: ten classes, 64 features and an intercept. Every node holds four samples and
draws two. Seconds are CPU time, the kernel's included, so that a busy machine counts for little; medians. "Share": a
round reads x, y and g and writes them anew, and reads the drawn samples; what that takes at the speed of a copy, in the
time of the round. "Vectors": the peak of a run of ``dsgt.run`` with its default metrics above the memory of the data,
in tensors of n x m.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from timing import goal

HERE = Path(__file__).resolve().parents[1]
NODES, SIZES, MILLION = (1_000, 10_000, 100_000), (50, 650), 1_000_000
HELD, DRAWN = 4, 2

WORKER = f"""
import json, resource, sys, time
from pathlib import Path
import numpy as np, scipy.sparse, torch
import dsgt
from dsgt.data import Samples, WithReplacement, partition
from dsgt.networks import Dense
from dsgt.problems import Logistic

n, m, dtype = json.loads(input())
d, classes = {{50: (50, 2), 650: (64, 10)}}[m]
how = {{"classes": classes, "intercept": classes > 2}}

def made(n):
    some = torch.Generator().manual_seed(0)
    features = torch.randn({HELD} * n, d, generator=some, dtype=getattr(torch, dtype))
    data = Samples(features, torch.randint(0, classes, ({HELD} * n,), generator=some))
    problem = Logistic(data, partition.equal(data, n), WithReplacement(eta={DRAWN / HELD}), **how)
    i = np.arange(n)
    near = np.concatenate([i, (i + 1) % n, (i - 1) % n])
    return problem, scipy.sparse.csr_array((np.full(3 * n, 1 / 3), (np.tile(i, 3), near)), shape=(n, n))

problem, W = made(n)
assert problem.dim == m
torch.set_num_threads(1)

def memory(k):
    dsgt.run(dsgt.DSGT(), *made(3), rounds=1, lr=0.01)  # what is imported at first use is no memory of a run
    Path("/proc/self/clear_refs").write_text("5")  # reset the high-water mark
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    dsgt.run(dsgt.DSGT(), problem, W, rounds=k, lr=0.01, every=k)
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    return (peak - before) / (problem.data.features.itemsize * n * m)

states = None

def rounds(k):
    global states
    if states is None:
        states = dsgt.iterate(dsgt.DSGT(), problem.oracle(0), Dense(W), problem.start(0), 0.01)
    with torch.no_grad():
        began, faults = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(k):
            next(states)
    return (time.process_time() - began) / k, (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / k

a = np.zeros(1 << 24, dtype=np.float32)
b = a.copy()

def copy(k):
    began = time.process_time()
    for _ in range(k):
        np.copyto(b, a)
    return k * 2 * a.nbytes / (time.process_time() - began)

for line in sys.stdin:
    what, k = json.loads(line)
    print(json.dumps({{"rounds": rounds, "memory": memory, "copy": copy}}[what](k)), flush=True)
"""


class Worker:
    """A process of one tree that holds one problem, and does what it is told."""

    def __init__(self, tree: Path, n: int, m: int, dtype: str) -> None:
        environment = os.environ | {
            "PYTHONPATH": str(tree / "src"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._tell([n, m, dtype])

    def __call__(self, what: str, k: int) -> Any:
        self._tell([what, k])
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def _tell(self, what: Any) -> None:
        assert self._process.stdin is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def least_bytes(n: int, m: int, dtype: str) -> int:
    """What a round moves at least: x, y and g read and written, and the drawn samples read."""
    return int(dtype[-2:]) // 8 * n * (6 * m + DRAWN * (50 if m == 50 else 65))


def measured(trees: dict[str, Path], n: int, m: int, dtype: str, turns: int) -> dict[str, dict[str, float]]:
    """By tree: the seconds and page faults of a round, the copied bytes a second, and the vectors of a run."""
    found: dict[str, dict[str, float]] = {}
    at_once = max(1, 20_000_000 // (n * m))
    workers = {}
    for name, tree in trees.items():
        alone = Worker(tree, n, m, dtype)
        found[name] = {"vectors": alone("memory", 6)}
        alone.close()
        workers[name] = Worker(tree, n, m, dtype)
        workers[name]("rounds", 3)
    told: dict[str, list[Any]] = {name: [] for name in workers}
    for _ in range(turns):
        for name, worker in workers.items():
            told[name].append((*worker("rounds", at_once), worker("copy", 4)))
    for name, worker in workers.items():
        worker.close()
        for what, values in zip(("seconds", "faults", "copied"), zip(*told[name], strict=True), strict=True):
            found[name][what] = statistics.median(values)
    return found


def goals(n: int, m: int, of: dict[str, float], grown: float | None, faster: float | None) -> None:
    where = f"{n:,} nodes, m = {m}"
    goal(f"{where}: share of the copy bandwidth", of["share"])
    if grown is not None:
        goal(f"{where}: seconds of a round / of a tenth of the nodes", grown, most=11)
    if n >= 100_000:
        goal(f"{where}: n x m vectors at most", of["vectors"], most=8)
    goal(f"{where}: rounds/s", 1 / of["seconds"], least=1 if n == MILLION else None)
    if faster is not None and n in (1_000, 100_000):
        goal(f"{where}: rounds/s / those of the other tree", faster, least=1 if n == 1_000 else 2.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="another tree of this project, with its src/ folder")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--nodes", type=int, nargs="*", default=NODES)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--million", action="store_true", help="a million nodes with m = 50; 3 GB")
    given = parser.parse_args()
    trees = ({"base": given.base.resolve()} if given.base else {}) | {"this": HERE}
    print(f"{'nodes':>9} {'m':>4} {'tree':>5} {'rounds/s':>9} {'x tenth':>8} ", end="")
    print(f"{'faults':>8} {'share':>6} {'vectors':>8} {'x base':>7}")
    for m in given.sizes:
        before: dict[tuple[str, int], float] = {}
        for n in (*given.nodes, *([MILLION] if given.million and m == 50 else [])):
            found = measured(trees, n, m, given.dtype, given.turns)
            for name, of in found.items():
                grown = of["seconds"] / before[name, n // 10] if (name, n // 10) in before else None
                faster = found["base"]["seconds"] / of["seconds"] if "base" in found else None
                of["share"] = least_bytes(n, m, given.dtype) / of["copied"] / of["seconds"]
                before[name, n] = of["seconds"]
                print(
                    f"{n:9,} {m:4} {name:>5} {1 / of['seconds']:9.1f} {shown(grown, 8, 1)} {of['faults']:8,.0f} "
                    f"{of['share']:6.0%} {of['vectors']:8.1f} {shown(faster, 7, 2)}",
                    flush=True,
                )
            goals(n, m, found["this"], grown, faster)


def shown(number: float | None, width: int, digits: int) -> str:
    return " " * width if number is None else f"{number:{width}.{digits}f}"


if __name__ == "__main__":
    main()
