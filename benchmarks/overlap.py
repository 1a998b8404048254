"""Whether mixing x bucket by bucket during back-propagation would pay, for DSGT and its like.

    python benchmarks/overlap.py

Starts itself under torchrun with 2 and 4 processes on this machine. x' = W (x - lr y) needs y, which needs the newest
gradient, so of a step only this mixing follows it; DSGT's W y and D-PSGD's W x travel beside the gradient already. A
bucket's part of it could leave as soon as back-propagation has come past the bucket. Compared are, in turn, one mixing
after the gradient, and ``BUCKETS`` of them, each begun when its share of the gradient is there and waited for at the
end: with a gradient that is computed on the processor, and with one that is a pause, as a GPU's is for the host.
Medians; "gain" is the time of the first over that of the second. What is mixed is the same.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import dsgt
from dsgt.core import Mix, Network

BUCKETS = 4
WIDTHS = {256: 60, 1024: 20}
"""Of the layers, and how often a step is measured."""
LAYERS, BATCH = 8, 32


class Steps:
    """A gradient and the mixing of x, in two ways."""

    def __init__(self, network: Network, width: int, pause: float | None) -> None:
        torch.manual_seed(0)
        self._mix: Mix = network.at(0)
        self._model = nn.Sequential(*(nn.Linear(width, width) for _ in range(LAYERS)))
        self._inputs, self._pause = torch.randn(BATCH, width), pause
        sizes = [p.numel() for p in self._model.parameters()]
        self._x = torch.randn(sum(sizes))
        each = len(sizes) // BUCKETS
        self._buckets = self._x.split([sum(sizes[i : i + each]) for i in range(0, len(sizes), each)])
        self._flights: list[dsgt.core.Pending] = []
        self._ready: Callable[[Tensor], None] = lambda part: None
        for bucket, layer in zip(self._buckets, list(self._model)[:: LAYERS // BUCKETS], strict=True):
            # back-propagation comes to a bucket's first layer last
            layer.weight.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._ready(bucket))

    def _gradient(self) -> None:
        if self._pause is None:
            self._model(self._inputs).sum().backward()
            return
        for bucket in reversed(self._buckets):
            time.sleep(self._pause / BUCKETS)
            self._ready(bucket)

    def whole(self) -> None:
        self._ready = lambda part: None
        self._gradient()
        self._mix(self._x)

    def in_buckets(self) -> None:
        self._ready = lambda part: self._flights.append(self._mix.start(part))
        self._gradient()
        while self._flights:
            self._flights.pop().wait()

    def gradient(self) -> None:
        self._ready = lambda part: None
        self._gradient()


def medians(acts: dict[str, Callable[[], None]], network: Network, repeats: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in acts}
    for k in range(repeats + 2):
        for name, act in acts.items():
            network.mean(torch.zeros(1, dtype=torch.float64))  # all begin together
            began = time.perf_counter()
            act()
            if k > 1:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(t) for name, t in times.items()}


def measure() -> None:
    torch.set_num_threads(1)
    n = int(os.environ["WORLD_SIZE"])
    hop = np.roll(np.eye(n), 1, axis=1)
    with dsgt.networks.TorchPeers(0.6 * np.eye(n) + 0.2 * hop + 0.2 * hop.T) as network:
        for width, repeats in WIDTHS.items():
            computed = Steps(network, width, None)
            alone = medians({"gradient": computed.gradient}, network, repeats)["gradient"]
            pause = float(network.mean(torch.tensor([alone], dtype=torch.float64)))
            for kind, steps in {"computed": computed, "pause": Steps(network, width, pause)}.items():
                acts = {"gradient": steps.gradient, "whole": steps.whole, "buckets": steps.in_buckets}
                found = medians(acts, network, repeats)
                if network.node == 0:
                    m = steps._x.numel()
                    print("ROW" + json.dumps({"nodes": n, "m": m, "kind": kind} | found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--be", action="store_true", help="be one node (set by this script itself)")
    if parser.parse_args().be:
        measure()
        return
    print("nodes           m  gradient  alone, ms  one mixing after it  buckets beside it  gain")
    for n in (2, 4):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}"]
        done = subprocess.run(
            [*command, str(Path(__file__).resolve()), "--be"],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        for r in (json.loads(line[3:]) for line in done.stdout.splitlines() if line.startswith("ROW")):
            times = f"{1e3 * r['gradient']:>10.1f} {1e3 * r['whole']:>20.1f} {1e3 * r['buckets']:>18.1f}"
            print(f"{n:>5} {r['m']:>11,d} {r['kind']:>9} {times} {r['whole'] / r['buckets']:>5.2f}", flush=True)


if __name__ == "__main__":
    main()
