"""What docs/choosing.md quotes of nodes that lie, messages that are lost, and trees.

    python benchmarks/unreliable.py

Least squares on uneven, different shards of 8 nodes with full gradients, as in tests/test_edge_methods.py.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import dsgt
from dsgt.topologies import Lossy, averaging, path
from dsgt.topologies import metropolis as weights_of
from test_edge_methods import COMPLETE, LR, PROBLEM, ZERO, N, after, honest_error, lies


def liars() -> None:
    print("one liar of eight, all hear all: the worst honest node's distance from the honest optimum, 2,000 rounds")
    for method in (dsgt.AtcDPSGD(), dsgt.ClippedGossip(1.0), dsgt.TrimmedMean(1), dsgt.Median()):
        print(f"  {method!r:24} {honest_error(after(method, lies(1e3), COMPLETE, ZERO, LR, 2000).x):8.3g}")


def losses() -> None:
    print("lossy links, all hear all: mean distance from the optimum, rounds 1,000 to 2,000")
    for p in (0.0, 0.1, 0.3):
        cells = []
        for method in (dsgt.AtcDPSGD(), dsgt.RPS()):
            states = dsgt.iterate(method, PROBLEM.full, Lossy(averaging(N), p, seed=1), ZERO, LR)
            off = [(s.x - PROBLEM.optimum).norm(dim=1).mean() for s in itertools.islice(states, 1000, 2000)]
            cells.append(f"{method!r} {torch.stack(off).mean().item():.2g}")
        print(f"  p = {p}: {', '.join(cells)}")


def trees() -> None:
    print("a path of eight: the worst node's distance from the optimum, 4,000 rounds")
    for method in (dsgt.AtcDPSGD(), dsgt.DSGT(), dsgt.RelaySGD()):
        x = after(method, PROBLEM.full, weights_of(path(N)), ZERO, LR, 4000).x
        far = (x - PROBLEM.optimum).norm(dim=1).max().item()
        print(f"  {type(method).__name__:10} {far:8.1e}, vectors a round: {method.sends}")


if __name__ == "__main__":
    liars()
    losses()
    trees()
