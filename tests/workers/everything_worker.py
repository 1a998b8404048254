"""One node of a training with everything at once, killed with -9 in its middle. usage: everything_worker.py FOLDER

Started by torchrun with one restart. The first start trains undisturbed, and then once more until a node is killed; the
second one resumes, and must end with the bits of the undisturbed training, at every node.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

import dsgt
from support.launch import HANGING

EPOCHS, WARM_UP, PARTS = 4, 5, 2
KILLED = (2, 1, 3)
"""Epoch, step and node."""


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """Of another size and distribution at every node; every look is augmented anew, in the loader's worker."""

    def __init__(self, node: int) -> None:
        draw, size = torch.Generator().manual_seed(node), (24, 31, 34, 41)[node]
        self._inputs = torch.randn(size, 1, 6, 6, generator=draw) + 0.2 * node
        self._labels = torch.randint(node + 1, (size,), generator=draw)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return self._inputs[i] + 0.1 * torch.randn(1, 6, 6), self._labels[i]


def made(network: dsgt.Network, samples: int) -> tuple[nn.Module, dsgt.Optimizer]:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(64, 4)
    )
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1]},
        {"params": [p for p in model.parameters() if p.ndim == 1], "lr": 0.02, "weight_decay": 0.0},
    ]
    method = dsgt.DSGT(inner=dsgt.Inner(torch.optim.AdamW, betas=(0.9, 0.95), weight_decay=0.1))
    return model, dsgt.Optimizer(groups, method, network, lr=0.01, clip=0.5, samples=samples)


def train(network: dsgt.Network, folder: Path, *, killed: bool) -> dict[str, Tensor]:
    """What the node has at the end: its model, what the method and AdamW remember, the learning rates."""
    torch.manual_seed(0)
    data = Noisy(network.node or 0)
    # not forked from here: in CPython 3.11 a fork while another thread ends can leave the child waiting for ever
    workers = {"num_workers": 1, "multiprocessing_context": "forkserver"}
    loader = DataLoader(data, batch_size=len(data) // 8, shuffle=True, drop_last=True, **workers)
    model, optimizer = made(network, len(data))
    scheduler = LambdaLR(optimizer, lambda k: min(1.0, k / WARM_UP))
    training = dsgt.checkpoint.Training(folder, model, optimizer, also={"scheduler": scheduler})
    first = training.resume()
    done = training.extra()["epochs"] if first else 0
    for epoch in range(done, EPOCHS):
        for i, (images, labels) in enumerate(optimizer.epoch(loader)):
            if i % PARTS == 0:
                optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(images), labels) / PARTS
            loss.backward()
            if i % PARTS == PARTS - 1:
                optimizer.step()
                scheduler.step()
            if killed and (epoch, i // PARTS, network.node) == KILLED:
                killed_with_its_workers()
        training.save({"epochs": epoch + 1})
    return ended(model, optimizer, scheduler)


def killed_with_its_workers() -> None:
    """torchrun gives a node a process group of its own; a worker of a loader would outlive its node."""
    assert os.getpgrp() == os.getpid()
    os.killpg(os.getpgrp(), signal.SIGKILL)


def ended(model: nn.Module, optimizer: dsgt.Optimizer, scheduler: LambdaLR) -> dict[str, Tensor]:
    held: dict[str, Any] = optimizer.state_dict()["dsgt"]["tensors"]
    rates = torch.tensor([*scheduler.get_last_lr(), optimizer.round], dtype=torch.float64)
    return {**model.state_dict(), **{f"held.{k}": v for k, v in held.items()}, "rates": rates}


def main(folder: Path) -> None:
    with dsgt.networks.TorchPeers(dsgt.topologies.metropolis(dsgt.topologies.ring(4)), timeout=HANGING) as network:
        kept, disturbed = folder / f"undisturbed-{network.node}.pt", folder / "disturbed"
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            torch.save(train(network, folder / "undisturbed", killed=False), kept)
            train(network, disturbed, killed=True)
            raise AssertionError("no node was killed")
        expected, found = torch.load(kept), train(network, disturbed, killed=False)
        assert expected.keys() == found.keys()
        different = [name for name in expected if not torch.equal(expected[name], found[name])]
        assert not different, f"node {network.node}: {different}"
        assert expected["held.inner.exp_avg"].any()
        print(f"node {network.node} is equal after {int(found['rates'][-1])} steps", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
