"""Runs that are interrupted and resumed, for tests/test_resume.py; under torchrun or mpiexec one node of them.

usage: interrupted.py torch|mpi FOLDER: every method, undisturbed and interrupted, must end with the same bits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import dsgt
from dsgt import data, metrics, problems
from dsgt.core import Network, tensors
from support.cases import CASES, F64, Case, graph

ROUNDS, EVERY, LR = 23, 5, 0.02
MEASURED = {name: metric for name, metric in metrics.DEFAULT.items() if name != "seconds"}


class PowerCutError(Exception):
    pass


def cut(at: int) -> Callable[[int], float]:
    """A learning rate that ends the run before round ``at`` is done."""

    def lr(k: int) -> float:
        if k == at:
            raise PowerCutError
        return LR / math.sqrt(1 + k / 10)

    return lr


def problem(n: int) -> problems.Problem:
    """Uneven shards, and epochs of 3 to 4 rounds: checkpoints fall into the middle of them."""
    samples, shards = data.synthetic.least_squares([7 + 2 * i for i in range(n)], 5, dtype=F64)
    return problems.LeastSquares(samples, shards, data.WithoutReplacement(eta=0.3))


def go(case: Case, network: object, n: int, until: int = -1, **options: Any) -> dsgt.Result[Any]:
    return dsgt.run(
        case.algorithm, problem(n), network, rounds=ROUNDS, lr=cut(until), every=4, metrics=MEASURED, seed=3, **options
    )


def interrupted(case: Case, connect: Callable[[], Network], n: int, folder: Path) -> dsgt.Result[Any]:
    """Cut off twice, then finished; every time in a new network, as after a restart."""
    for until in (13, 17):
        try:
            with connect() as network:
                go(case, network, n, until, checkpoint_dir=folder, checkpoint_every=EVERY, resume=True)
                raise AssertionError("it was not cut off")
        except PowerCutError:
            pass
    with connect() as network:
        return go(case, network, n, checkpoint_dir=folder, checkpoint_every=EVERY, resume=True)


def equal(a: dsgt.Result[Any], b: dsgt.Result[Any]) -> bool:
    """To the last bit, messages in flight and metric rows included."""
    x, y = tensors(a.state), tensors(b.state)
    return a.rows == b.rows and x.keys() == y.keys() and all(torch.equal(x[name], y[name]) for name in x)


def trained(net: Network, folder: Path | None, steps: int) -> nn.Module:
    """A model with dropout, batch normalisation, momentum-free schedule and torch's own random numbers."""
    torch.manual_seed(net.node)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 1))
    opt = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), net, lr=0.05, samples=9 + net.node)
    training = dsgt.checkpoint.Training(folder, model, opt) if folder else None
    for step in range(training.resume() if training else 0, steps):
        opt.zero_grad()
        (model(torch.randn(8, 4) + net.node) - 1).pow(2).mean().backward()
        opt.param_groups[0]["lr"] = 0.05 / (1 + step)
        opt.step()
        if training and opt.round % 4 == 0:
            training.save()
    return model


def main(kind: str, folder: Path) -> None:
    if kind == "torch":
        import torch.distributed as dist

        dist.init_process_group("gloo")
        n, peers = dist.get_world_size(), dsgt.networks.TorchPeers
    else:
        from mpi4py import MPI

        n, peers = MPI.COMM_WORLD.Get_size(), dsgt.networks.MPIPeers
    for name, case in CASES.items():
        W = case.weights(graph(n))
        with peers(W, timeout=60) as network:
            expected = go(case, network, n)
        # an error in a with block ends an MPI job, so the networks of the interrupted run are left open
        networks: list[Network] = []

        def connect(W: object = W, networks: list[Network] = networks) -> Network:
            networks.append(Open(peers(W, timeout=60)))
            return networks[-1]

        assert equal(interrupted(case, connect, n, folder / name), expected), name
        for network in networks:
            network.close()
    with peers(CASES["dsgt"].weights(graph(n)), timeout=60) as network:
        expected = trained(network, None, 11)
        for steps in (6, 9, 11):
            found = trained(network, folder / "optimizer", steps)
        for key, value in expected.state_dict().items():
            assert torch.equal(value, found.state_dict()[key]), key
    if kind == "torch":
        dist.destroy_process_group()


class Open(dsgt.networks.Cycle):
    """A network that an error does not close."""

    def __init__(self, network: Network) -> None:
        super().__init__([network])

    def __exit__(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]))
