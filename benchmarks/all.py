"""Every benchmark in a short form, one after another, and last one table of what was wanted and what was reached.

    python benchmarks/all.py               less than fifteen minutes on two idle cores
    python benchmarks/all.py startup peers     these only

A benchmark says what it found with ``timing.goal`` and stands in the list below: no more is needed to be in the table.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from timing import GOAL

HERE = Path(__file__).parent
LIMIT = 600
"""Seconds, after which a benchmark is given up."""
RUNS = {
    "startup": "startup.py --turns 5",
    "compare": "compare.py --turns 7 --commands 1",
    "simulator": "simulator.py",
    "problems": "problems.py lenet logistic mlp",
    "large networks": "large.py --turns 3 --million",
    "products": "products.py",
    "changing weights": "changing_weights.py",
    "engine": "engine.py --turns 1",
    "oracles": "variance_reduction.py speed",
    "compression": "compression.py packing",
    "asynchrony": "asynchrony.py speed",
    "step": "step.py --nodes 2 --turns 5",
    "links": "links.py here --turns 9 --steps 3",
    "overlap": "overlap.py",
    "peers": "peers.py --kinds torch --sizes 62000",
    "theory": "theory.py advice",
    "unreliable": "unreliable.py",
}
"""A script of this folder, and what it is told. Not here: what takes an hour, needs a data set or root, or draws."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *RUNS], metavar="NAME", help=f"of {', '.join(RUNS)}")
    names = parser.parse_args().names or list(RUNS)
    began = time.monotonic()
    table = Table("benchmark", "what", "found", "wanted", "", title="Where we stand")
    for name in names:
        goals, said, seconds = outcome(RUNS[name])
        for what, found, wanted, reached in goals:
            table.add_row(name, what, found, wanted, reached)
        table.add_row(name, said, f"{seconds:.0f} s", "", "", style="dim", end_section=True)
    console = Console(width=max(120, Console().width))
    console.print(table)
    console.print(f"{(time.monotonic() - began) / 60:.1f} minutes in all", highlight=False)


def outcome(words: str) -> tuple[list[list[str]], str, float]:
    """Run it, showing what it prints: its goals, how it ended, and how long it took."""
    script, *told = words.split()
    print(f"\n--- {words}", flush=True)
    began, goals = time.monotonic(), []
    process = subprocess.Popen([sys.executable, str(HERE / script), *told], stdout=subprocess.PIPE, text=True)
    late = threading.Timer(LIMIT, process.kill)
    late.start()
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(GOAL):
            goals.append(line.removeprefix(GOAL).rstrip("\n").split("\t"))
        else:
            print(line, end="", flush=True)
    code = process.wait()
    late.cancel()
    seconds = time.monotonic() - began
    said = "ran" if code == 0 else f"given up after {LIMIT} s" if seconds >= LIMIT else f"failed, exit {code}"
    return goals, said, seconds


if __name__ == "__main__":
    main()
