"""A run for the fault suite: one node of it, or all of them in one process.

usage: fault_worker.py torch|mpi|all|training FOLDER [PAUSE [TIMEOUT]]: leaves progress, errors and result in
FOLDER/notes, its checkpoints in FOLDER/checkpoints, takes PAUSE seconds a round, so that there is time to disturb it,
and waits TIMEOUT seconds for a neighbour. With a PAUSE it does not end before FOLDER/notes/disturbed is there, so that
it cannot outrun a disturber who is slow on a busy machine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

import dsgt
from dsgt.core import tensors
from support.cases import CASES, graph
from support.interrupted import MEASURED, problem

ROUNDS, EVERY, N = 60, 7, 4
TIMEOUT = 20.0
"""Seconds that a node waits for a neighbour: on a busy machine a healthy one may take long."""


def network(kind: str, timeout: float) -> dsgt.Network:
    n = N if kind == "all" else int(os.environ.get("WORLD_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"])
    W = CASES["dsgt"].weights(graph(n))
    if kind == "all":
        return dsgt.networks.Dense(W)
    peers = dsgt.networks.MPIPeers if kind == "mpi" else dsgt.networks.TorchPeers
    return peers(W, timeout=timeout)


def main(kind: str, folder: Path, pause: float = 0.0, timeout: float = TIMEOUT) -> None:
    notes = folder / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    try:
        with network(kind, timeout) as net:
            (train_by_hand if kind == "training" else train)(net, folder, pause)
    except dsgt.NeighbourError as error:
        note = {"node": error.node, "neighbour": error.neighbour, "time": time.time(), "says": str(error)}
        (notes / f"error-{os.getpid()}").write_text(json.dumps(note))
        raise


def train(net: dsgt.Network, folder: Path, pause: float) -> None:
    note = Note(net, folder, pause)

    def lr(k: int) -> float:
        note(k)
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
    note.result(tensors(found.state) | {"rows": torch.tensor([list(row.values()) for row in found.rows])})


def train_by_hand(net: dsgt.Network, folder: Path, pause: float) -> None:
    """A loop as a user writes it, with torch's own random numbers."""
    torch.manual_seed(net.node)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 1))
    opt = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), net, lr=0.05, samples=9 + net.node)
    training = dsgt.checkpoint.Training(folder / "checkpoints", model, opt)
    note = Note(net, folder, pause)
    for step in training.steps(ROUNDS, save_every=EVERY):
        note(step)
        opt.zero_grad()
        (model(torch.randn(8, 4) + net.node) - 1).pow(2).mean().backward()
        opt.step()
    note.result(model.state_dict())


class Note:
    """What a node leaves behind: its process, a line for every round, and its result."""

    def __init__(self, net: dsgt.Network, folder: Path, pause: float) -> None:
        self.node, self.folder, self.pause, self.begun = net.node or 0, folder / "notes", pause, False
        (self.folder / f"pid-{self.node}").write_text(str(os.getpid()))

    def __call__(self, k: int) -> None:
        with (self.folder / f"rounds-{self.node}").open("a") as log:
            log.write(f"{'' if self.begun else 'begin '}{k}\n")
        self.begun = True
        time.sleep(self.pause)
        while self.pause and k == ROUNDS - 2 and not (self.folder / "disturbed").exists():
            time.sleep(0.01)

    def result(self, found: dict[str, torch.Tensor]) -> None:
        torch.save(found, self.folder / f"result-{self.node}.pt")


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
