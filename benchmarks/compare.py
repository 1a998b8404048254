"""What `dsgt compare` costs: the CPU time of one run of a comparison, by method, and of the whole command.

    python benchmarks/compare.py                     this tree alone
    python benchmarks/compare.py --base OTHER        beside another tree of this project: how many times as fast

Trees take turns, each in a process of its own with one thread, and medians are shown. CPU time and not the clock on the
wall, so that a busy machine hits both alike. The problem is the command's own (the digits); weights, learning rate and
seeds are said, so that trees whose defaults differ do the same work: 84 runs in the whole command.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import goal, processes_time

METHODS = ("dsgt", "dpsgd", "d2", "sgd")
SAME_WORK = ("--weights", "metropolis", "--lr", "0.05", "--seeds", "21", "--workers", "2")
HERE = Path(__file__).resolve().parents[1]

JOBS = """
import sys, time
from dsgt.comparison import Settings
from dsgt.comparison.job import Job
settings = Settings(weights="metropolis")
for method in sys.stdin:
    job, news = Job(settings, method.strip(), 0.05, 0), []
    began = time.process_time()
    job(lambda *some: news.append(some[-1]))
    print(time.process_time() - began, getattr(news[-1], "share", "nan"), flush=True)
"""
COMMAND = """
try:
    from dsgt.__main__ import main
except ImportError:  # an older tree
    from dsgt.cli import app as main
main()
"""


def environment(tree: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Jobs:
    """A process of one tree that does a run whenever it is told a method."""

    def __init__(self, tree: Path) -> None:
        self.shares: list[float] = []
        """What measuring took of each run."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", JOBS],
            env=environment(tree),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, method: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(method, file=self._process.stdin, flush=True)
        seconds, share = map(float, self._process.stdout.readline().split())
        self.shares.append(share)
        return seconds

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def command_seconds(tree: Path) -> float:
    """Of the whole command with two workers: imports, weights, all runs, tables, figures and the report."""
    with tempfile.TemporaryDirectory() as folder:
        before = processes_time()
        subprocess.run(
            [sys.executable, "-c", COMMAND, "compare", *METHODS, *SAME_WORK, "--out", folder],
            env=environment(tree),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return processes_time() - before


def share_of_measuring() -> float:
    """As the command says it: of all its runs, those included that choose a learning rate and are measured at their
    end."""
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run(
            [sys.executable, "-c", COMMAND, "compare", *METHODS, "--out", folder],
            env=environment(HERE),
            capture_output=True,
            text=True,
            check=True,
        )
    return float(said.stdout.split("Measuring took ")[1].split("%")[0]) / 100


def show(what: str, unit: str, times: dict[str, list[float]], scale: float) -> dict[str, float]:
    middle = {name: scale * statistics.median(some) for name, some in times.items()}
    found = f"{what:28}" + "".join(f"  {name} {seconds:8.2f} {unit}" for name, seconds in middle.items())
    if "base" in middle:
        found += f"   base / this {middle['base'] / middle['this']:5.2f}"
    print(found, flush=True)
    return middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="another tree of this project, with its src/ folder")
    parser.add_argument("--turns", type=int, default=15, help="runs of each method")
    parser.add_argument("--commands", type=int, default=3, help="whole commands; 0 for none")
    given = parser.parse_args()
    trees = ({"base": given.base.resolve()} if given.base else {}) | {"this": HERE}
    jobs = {name: Jobs(tree) for name, tree in trees.items()}
    for method in METHODS:
        for process in jobs.values():
            process.seconds(method)  # the first loads things
        times: dict[str, list[float]] = {name: [] for name in jobs}
        for _ in range(given.turns):
            for name, process in jobs.items():
                times[name].append(process.seconds(method))
        show(f"one run of {method}", "ms", times, 1e3)
    for process in jobs.values():
        process.close()
    goal("measuring, share of a run that is reported", statistics.median(jobs["this"].shares))
    if given.commands:
        goal("measuring, share of make demo", share_of_measuring(), most=0.15)
        times = {name: [] for name in trees}
        for _ in range(given.commands):
            for name, tree in trees.items():
                times[name].append(command_seconds(tree))
        middle = show("dsgt compare, whole", "s ", times, 1)
        if "base" in middle:
            goal("dsgt compare, CPU of this tree / of the other", middle["this"] / middle["base"], most=0.5)
        else:
            goal("dsgt compare, 84 runs, CPU seconds", middle["this"])


if __name__ == "__main__":
    main()
