"""One of four processes that are two nodes. usage: inside_worker.py FOLDER

The path of two nodes with two processes each is that of two nodes with the double batch, which run as threads here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

import dsgt
from dsgt.networks import Peers, in_threads
from support.launch import HANGING

W = [[0.6, 0.4], [0.4, 0.6]]
F64 = torch.float64
STEPS = 6


def net() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).to(F64)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.rand(p.shape, generator=draw, dtype=F64) - 0.5)
    return model


def batch(node: int, k: int) -> Tensor:
    return torch.randn(8, 4, dtype=F64, generator=torch.Generator().manual_seed(100 * node + k)) + node


def backward(model: nn.Module, inputs: Tensor) -> None:
    (model(inputs).pow(2).mean() + (model(inputs) * inputs[:, :2]).mean()).backward()


def train(model: nn.Module, optimizer: dsgt.Optimizer, of_batch: Callable[[Tensor], Tensor], ks: range) -> Tensor:
    for k in ks:
        optimizer.zero_grad()
        backward(model, of_batch(batch(optimizer.network.node or 0, k)))
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def with_double_batches(method: dsgt.Algorithm[Any], **options: Any) -> list[Tensor]:
    def act(network: Peers) -> Tensor:
        model = net()
        return train(model, dsgt.Optimizer(model.parameters(), method, network, **options), lambda b: b, range(STEPS))

    return in_threads(W, act)


def same_path(network: Peers, inside: Any, method: dsgt.Algorithm[Any], **options: Any) -> None:
    model, place = net(), dist.get_rank(inside)
    if place:
        with torch.no_grad():
            model[0].weight.zero_()  # the node's first process gives its own
    optimizer = dsgt.Optimizer(model.parameters(), method, network, inside=inside, **options)
    found = train(model, optimizer, lambda b: b.chunk(2)[place], range(STEPS))
    expected = with_double_batches(method, **options)[network.node or 0]
    assert (found - expected).abs().max() < 1e-12  # six steps' round-off of a mean of two means
    rows = optimizer.everyone.gather(found).reshape(2, 2, -1)
    assert torch.equal(rows[:, 0], rows[:, 1])  # and the same bits within a node


def resumes(network: Peers, inside: Any, folder: Path) -> None:
    """Dropout is drawn by each process for itself, so each has its own part of a checkpoint."""

    def run(where: Path, *ends: int) -> Tensor:
        for until in ends:
            torch.manual_seed(dist.get_rank())
            model = nn.Sequential(*net(), nn.Dropout(0.3))
            optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.05, inside=inside)
            for k in dsgt.checkpoint.Training(where, model, optimizer).steps(until, save_every=2):
                train(model, optimizer, lambda b: b, range(k, k + 1))
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    assert torch.equal(run(folder / "parts", 3, STEPS), run(folder / "whole", STEPS))
    assert len(list((folder / "whole").glob("*node-*-of-4.safetensors"))) == 4 * 3


def asks_everyone(network: Peers, inside: Any) -> None:
    """Epochs, buffers and skipped steps are those of all four processes."""
    me = dist.get_rank()
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1)).to(F64)
    optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.05, inside=inside, unused="zero")
    assert sum(1 for _ in optimizer.epoch([None] * (2 + me))) == 5
    model[0].running_mean.fill_(me)
    assert optimizer.average(model)[0].running_mean.tolist() == [1.5] * 4
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for k in range(3):
        optimizer.zero_grad()
        scale = float("inf") if k == 1 and me == 3 else 1.0
        scaler.scale(scale * model(batch(me, k)).pow(2).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert optimizer.round == 2


@contextmanager
def refused(words: str, kind: type[Exception] = ValueError) -> Iterator[None]:
    with pytest.raises(kind, match=re.escape(words)):
        yield


def misused(network: Peers, inside: Any, between: Any) -> None:
    me = dist.get_rank()

    def made(**options: Any) -> dsgt.Optimizer:
        return dsgt.Optimizer(
            net().parameters(), dsgt.DSGT(), **({"lr": 0.1, "inside": inside, "network": network} | options)
        )

    others = dist.new_group([0, 1])
    if me > 1:
        with refused("expected one that this process is in"):
            made(inside=others)
        with refused("expected one that this process is in"):
            dsgt.networks.TorchPeers(W, group=others)
    with refused("[0, 1] was given as a process group"):
        made(inside=[0, 1])
    with refused("the processes of inside= are nodes [0, 1] of the network"):
        made(inside=between)
    words = f"the processes of inside= are nodes [{me // 2 * 2}, {me // 2 * 2 + 1}] of the network"
    with dsgt.networks.TorchPeers([[0.25] * 4] * 4, timeout=HANGING) as everyone, refused(words):
        made(network=everyone)
    with refused("lr is (0.1,) at process 0 of node 0, but (0.2,) at process 1 of node 1"):
        made(lr=0.2 if me == 3 else 0.1)
    with refused("the processes of node 1 must have the same samples"):
        made(samples=7 if me == 3 else 5)
    crossed, _ = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
    with dsgt.networks.TorchPeers(W, group=crossed, timeout=HANGING) as network, refused("it mixes with process"):
        made(network=network)


def of_different_sizes() -> None:
    """Process 3 is a node of its own, 0 and 1 another; 2 is left over."""
    me = dist.get_rank()
    insides = {0: [0, 1], 1: [0, 1], 3: [3]}
    groups = [dist.new_group([0, 1]), dist.new_group([3]), dist.new_group([0, 3])]
    if me == 1:
        with refused("expected one that this process is in"):
            dsgt.networks.TorchPeers(W, group=groups[2])
    if me in (0, 3):
        inside = groups[0] if me == 0 else groups[1]
        assert dist.get_process_group_ranks(inside) == insides[me]
    if me == 1:
        dist.all_reduce(torch.zeros(2, 1, dtype=F64), group=groups[0])  # process 0 asks who is in its node
    if me in (0, 3):
        words = "give every node as many processes"
        with dsgt.networks.TorchPeers(W, group=groups[2], timeout=HANGING) as network, refused(words):
            dsgt.Optimizer(net().parameters(), dsgt.DSGT(), network, lr=0.1, inside=inside)


def models_that_drift_apart(network: Peers, inside: Any) -> None:
    model = net()
    optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.01, inside=inside)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dsgt.optim.optimizer.AGREE_EVERY", 2)
        train(model, optimizer, lambda b: b, range(2))
        if dist.get_rank() == 2:
            with torch.no_grad():
                model[0].bias.add_(1.0)
        with refused("the processes of node 1 must have the same model"):
            train(model, optimizer, lambda b: b, range(1))


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("nodes", "inside"))
    between, inside = mesh.get_group("nodes"), mesh.get_group("inside")
    with dsgt.networks.TorchPeers(W, group=between, timeout=HANGING) as network:
        assert (network.node, dist.get_rank(inside)) == divmod(dist.get_rank(), 2)
        for method in (dsgt.DSGT(), dsgt.DPSGD(), dsgt.D2(), dsgt.GNSD()):
            same_path(network, inside, method, lr=0.05)
        adamw = dsgt.DSGT(inner=dsgt.Inner(torch.optim.AdamW))
        same_path(network, inside, adamw, lr=0.01, clip=0.5, weight_decay=0.1, start="own")
        resumes(network, inside, folder)
        asks_everyone(network, inside)
        models_that_drift_apart(network, inside)
        misused(network, inside, between)
    of_different_sizes()
    print(f"process {dist.get_rank()} is right", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
