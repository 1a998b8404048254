"""What DSGT's second message costs on real nodes, beside one all-reduce, and the memory of a node.

    python benchmarks/peers.py

Starts itself under torchrun and mpiexec with 2 and 4 processes on this machine and prints one table. A step is a
compute phase and one round. The compute phase is a pause, as a GPU's is for the host, just long enough to hide one
mixing: the shortest, beginning with 1.5 mixings, after which at most 1 % of DSGT's messages are still on their way, at
every node. (A message that travels beside the work takes longer than one that everybody waits for, since no two nodes
begin it at the same moment.) --pause 2 makes it twice as long as one mixing, whatever that hides; "late" is the share
of node 0's messages that were late while the steps were measured. DDP is a step of torch's DistributedDataParallel with
the same pause; Decent one of Decent-DP's DecentralizedDataParallel on its ring, where it is installed (pip install
decent-dp==0.2.3): every step averages two nodes, and travels while the next one computes. Aug-DGM sends two messages as
DSGT does and hides none. They take turns, four steps each; medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import dsgt
import dsgt.networks.peers
from dsgt.core import Network
from dsgt.networks.flights import Flight

REPEATS = {62_000: 150, 1_000_000: 30, 10_000_000: 10}
"""For every size of a model."""
IN_A_ROW = 4
LATE = 0.01
"""The share of the messages that may be late where a pause is said to hide them."""


def ring(n: int) -> np.ndarray:
    """Every node and its neighbours; most of it stays at home, so that it is no plain average for n = 2 and 3."""
    hop = np.roll(np.eye(n), 1, axis=1)
    return 0.6 * np.eye(n) + 0.2 * hop + 0.2 * hop.T


def median_seconds(
    acts: dict[str, Callable[[], None]], network: Network, repeats: int, in_a_row: int = 1
) -> dict[str, float]:
    """The acts in turn, all nodes starting each together; some times in a row, so that a message that travels beside
    the work travels beside its own."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    here = torch.zeros(1, dtype=torch.float64)
    for _ in range(repeats):
        for name, act in acts.items():
            network.mean(here)
            began = time.perf_counter()
            for _ in range(in_a_row):
                act()
            times[name].append((time.perf_counter() - began) / in_a_row)
            if isinstance(act, Step | DecentStep):
                act.settle()
    return {name: statistics.median(t) for name, t in times.items()}


class Step:
    """A training step whose gradient is a pause: the model is one parameter of m numbers."""

    def __init__(self, algorithm: dsgt.Algorithm, network: Network, m: int, pause: float) -> None:
        self.parameter = nn.Parameter(torch.zeros(m))
        self.optimizer = dsgt.Optimizer([self.parameter], algorithm, network, lr=1e-3)
        self.loss = self.parameter.sum
        self.pause = pause
        self.late: list[bool] = []
        """For every step that had sent a message: whether it was still on its way after the compute phase."""

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        time.sleep(self.pause)
        flights = [f for f in self.optimizer._state or () if isinstance(f, Flight) and f.travels_in_background]
        self.late += [f.on_its_way for f in flights]
        self.optimizer.step()

    def settle(self) -> None:
        """Wait for the messages that are still on their way: they must not disturb whose turn is next."""
        dsgt.settle(self.optimizer._state)


class Sum(nn.Module):
    def __init__(self, m: int) -> None:
        super().__init__()
        self.parameter = nn.Parameter(torch.zeros(m))

    def forward(self) -> torch.Tensor:
        return self.parameter.sum()


class CentralizedStep:
    """The same step with torch's DistributedDataParallel, whose backward is an all-reduce of the gradient."""

    def __init__(self, m: int, pause: float) -> None:
        self.loss = nn.parallel.DistributedDataParallel(Sum(m))
        self.optimizer = torch.optim.SGD(self.loss.parameters(), lr=1e-3)
        self.pause = pause

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        time.sleep(self.pause)
        self.loss().backward()
        self.optimizer.step()


class DecentStep:
    """The same step with Decent-DP, whose backward also mixes what the last step has sent, and moves."""

    def __init__(self, m: int, pause: float) -> None:
        from decent_dp.ddp import DecentralizedDataParallel
        from loguru import logger

        logger.disable("decent_dp")
        self.loss = DecentralizedDataParallel(Sum(m), _sgd, topology="ring")
        self.pause = pause

    def __call__(self) -> None:
        loss = self.loss()
        time.sleep(self.pause)
        loss.backward()

    def settle(self) -> None:
        for sent in self.loss._comm_ops:
            if sent is not None:
                sent.wait()


def _sgd(named: list[tuple[str, torch.Tensor]]) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for _, p in named], lr=1e-3)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_vectors(network: Network, m: int) -> float:
    """The largest resident memory of a few DSGT steps beyond what was there before, in vectors of m floats."""
    Step(dsgt.DSGT(), network, 1, 0.0)()  # torch loads some of itself with the first optimizer
    Path("/proc/self/clear_refs").write_text("5")  # reset the high-water mark
    before = resident()
    step = Step(dsgt.DSGT(), network, m, 0.0)
    for _ in range(4):
        step()
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    return (peak - before) / (4 * m)


def hiding_pause(network: Network, m: int, mixing: float) -> float:
    """The shortest one, in steps of a fifth, that hides DSGT's message at every node."""
    step = Step(dsgt.DSGT(), network, m, 1.5 * mixing)
    median_seconds({"warm-up": step}, network, 1, IN_A_ROW)
    while True:
        step.late.clear()
        median_seconds({"DSGT": step}, network, REPEATS[m] // 2, IN_A_ROW)
        here = torch.tensor([statistics.fmean(step.late)], dtype=torch.float64)
        if network.gather(here).max() <= LATE:
            return step.pause
        step.pause *= 1.2


def measure(kind: str, sizes: list[int], mixings: float | None) -> None:
    """One node's part; node 0 prints a line of JSON a size."""
    torch.set_num_threads(1)
    dsgt.networks.peers.is_hidden = lambda transport: True  # a pause leaves cores idle, also where there are few
    world = int(os.environ.get("WORLD_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"])
    connect = dsgt.networks.TorchPeers if kind == "torch" else dsgt.networks.MPIPeers
    with connect(ring(world)) as network:
        vectors = peak_vectors(network, max(REPEATS))
        for m in sizes:
            v = torch.randn(m)
            both = {"mixing": lambda v=v: network(v), "all": lambda v=v: network.mean(v)}
            alone = median_seconds(both, network, REPEATS[m])
            mixing = float(network.mean(torch.tensor([alone["mixing"]], dtype=torch.float64)))
            pause = hiding_pause(network, m, mixing) if mixings is None else mixings * mixing
            dsgt_step = Step(dsgt.DSGT(), network, m, pause)
            steps: dict[str, Callable[[], None]] = {
                "D-PSGD": Step(dsgt.AtcDPSGD(), network, m, pause),
                "DSGT": dsgt_step,
                "Aug-DGM": Step(dsgt.AugDGM(), network, m, pause),
            }
            if kind == "torch":
                steps["DDP"] = CentralizedStep(m, pause)
                if importlib.util.find_spec("decent_dp"):
                    steps["Decent"] = DecentStep(m, pause)
            median_seconds(steps, network, 2, IN_A_ROW)
            dsgt_step.late.clear()
            found = median_seconds(steps, network, REPEATS[m], IN_A_ROW) | alone
            found |= {"pause": pause, "late": statistics.fmean(dsgt_step.late)}
            if network.node == 0:
                row = {"kind": kind, "nodes": world, "m": m, "vectors": vectors, "neighbours": len(network.hears)}
                print("ROW" + json.dumps(row | found), flush=True)


def launch(kind: str, n: int, sizes: list[int], mixings: float | None) -> list[dict[str, Any]]:
    script = str(Path(__file__).resolve())
    if kind == "torch":
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}", script]
    else:
        command = [
            str(Path(sys.executable).parent / "mpiexec"),
            "--oversubscribe",
            "-n",
            str(n),
            sys.executable,
            script,
        ]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        [*command, "--be", kind, "--sizes", *map(str, sizes), *([] if mixings is None else ["--pause", str(mixings)])],
        env=os.environ | root | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return [json.loads(line[3:]) for line in done.stdout.splitlines() if line.startswith("ROW")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--be", choices=["torch", "mpi"], help="be one node (set by this script itself)")
    parser.add_argument(
        "--sizes", type=int, nargs="*", choices=list(REPEATS), default=list(REPEATS), help="of the model"
    )
    parser.add_argument("--kinds", choices=["torch", "mpi"], nargs="*", default=["torch", "mpi"])
    parser.add_argument("--pause", type=float, help="the compute phase, in mixings (default: as long as hides one)")
    given = parser.parse_args()
    if given.be:
        measure(given.be, given.sizes, given.pause)
        return
    ratios = f"  late{'DSGT':>9}{'Aug-DGM':>9}  memory"
    print("nodes            m" + "".join(f"{name:>9}" for name in TIMES) + ratios)
    print(" " * 18 + f"{'ms':>9}" * len(TIMES) + f"{'/D-PSGD':>15}{'/D-PSGD':>9}  m-vectors")
    for kind in given.kinds:
        for n in (2, 4):
            for row in launch(kind, n, given.sizes, given.pause):
                print(told(row), flush=True)


TIMES = {"mixing": "mixing", "all-red.": "all", "pause": "pause"} | {
    name: name for name in ("DDP", "Decent", "D-PSGD", "DSGT")
}
"""Columns of milliseconds."""


def told(row: dict[str, Any]) -> str:
    times = "".join(f"{1e3 * row[key]:>9.1f}" if key in row else f"{'-':>9}" for key in TIMES.values())
    ratios = "".join(f"{row[name] / row['D-PSGD']:>9.2f}" for name in ("DSGT", "Aug-DGM"))
    memory = f"{row['vectors']:>8.1f}, {row['neighbours']} neighbours"
    return f"{row['kind']:5} {row['nodes']} {row['m']:>10,d}{times}{row['late']:>6.0%}{ratios}{memory}"


if __name__ == "__main__":
    main()
