"""A run for the fault suite: one node of it, or all of them in one process.

usage: fault_worker.py torch|mpi|all FOLDER [PAUSE [TIMEOUT]]: leaves its progress, its errors and its result in
FOLDER/notes, its checkpoints in FOLDER/checkpoints, takes PAUSE seconds a round, so that there is time to disturb it,
and waits TIMEOUT seconds for a neighbour.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch

import dsgt
from cases import CASES, graph
from dsgt.core import tensors
from interrupted import MEASURED, problem

ROUNDS, EVERY, N = 60, 7, 4
TIMEOUT = 20.0
"""Seconds that a node waits for a neighbour: on a busy machine a healthy one may take long."""


def network(kind: str, timeout: float) -> dsgt.Network:
    n = N if kind == "all" else int(os.environ.get("WORLD_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"])
    W = CASES["dsgt"].weights(graph(n))
    if kind == "all":
        return dsgt.networks.Dense(W)
    peers = dsgt.networks.TorchPeers if kind == "torch" else dsgt.networks.MPIPeers
    return peers(W, timeout=timeout)


def main(kind: str, folder: Path, pause: float = 0.0, timeout: float = TIMEOUT) -> None:
    notes = folder / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    try:
        with network(kind, timeout) as net:
            train(net, folder, pause)
    except dsgt.NeighbourError as error:
        note = {"node": error.node, "neighbour": error.neighbour, "time": time.time(), "says": str(error)}
        (notes / f"error-{os.getpid()}").write_text(json.dumps(note))
        raise


def train(net: dsgt.Network, folder: Path, pause: float) -> None:
    node, notes = net.node or 0, folder / "notes"
    (notes / f"pid-{node}").write_text(str(os.getpid()))
    begun = False

    def lr(k: int) -> float:
        nonlocal begun
        with (notes / f"rounds-{node}").open("a") as log:  # a line per look at the schedule
            log.write(f"{'' if begun else 'begin '}{k}\n")
        begun = True
        time.sleep(pause)
        return 0.02

    found = dsgt.run(
        dsgt.DSGT(),
        problem(net.nodes),
        net,
        rounds=ROUNDS,
        lr=LateSchedule(lr),
        every=4,
        metrics=MEASURED,
        checkpoint_dir=folder / "checkpoints",
        checkpoint_every=EVERY,
        resume=True,
    )
    saved = tensors(found.state) | {"rows": torch.tensor([list(row.values()) for row in found.rows])}
    torch.save(saved, notes / f"result-{node}.pt")


class LateSchedule:
    """Skips the look at round 0 with which a run checks its arguments."""

    def __init__(self, lr) -> None:
        self.lr, self.looks = lr, 0

    def __call__(self, k: int) -> float:
        self.looks += 1
        return 0.02 if self.looks == 1 else self.lr(k)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]), *map(float, sys.argv[3:]))
