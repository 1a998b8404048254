"""What it costs to start: the CPU seconds of whole processes, beside one that does nothing but import torch.

    python benchmarks/startup.py

Processes take turns, each with one thread, and medians are shown. A script that trains imports what the third row says.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable

from timing import goal, in_turn, processes_time

ROWS = {
    "import torch": ("import torch",),
    "import dsgt": ("import dsgt",),
    "what trains": ("from dsgt import DSGT, Optimizer, networks, problems, run, topologies",),
    "dsgt --help": ("from dsgt.__main__ import main; main()", "--help"),
    "dsgt methods": ("from dsgt.__main__ import main; main()", "methods"),
    "dsgt compare --help": ("from dsgt.__main__ import main; main()", "compare", "--help"),
}
MOST = 1.35
"""Times what ``import torch`` takes: of the rows that a script or a user meets first."""


def process(*words: str) -> Callable[[], object]:
    one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return lambda: subprocess.run([sys.executable, "-c", *words], env=one_thread, stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7, help="processes of each kind")
    given = parser.parse_args()
    contenders = {name: process(*words) for name, words in ROWS.items()}
    seconds = in_turn(contenders, given.turns, warm=1, clock=processes_time)
    torch = seconds["import torch"]
    for name, found in seconds.items():
        print(f"{name:20} {found:6.2f} s   {found / torch:5.2f} x import torch", flush=True)
    for name in ("import dsgt", "what trains", "dsgt --help"):
        goal(f"{name} / import torch", seconds[name] / torch, most=MOST)


if __name__ == "__main__":
    main()
