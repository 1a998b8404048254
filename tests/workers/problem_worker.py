"""One node of a real network, or the simulator: the same call, the same problem. Saves the path of node i."""

from __future__ import annotations

import itertools
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

import networkx as nx
import torch
import torch.distributed as dist
from torch import nn

from dsgt import DSGT, iterate, metrics, run
from dsgt.core import Network
from dsgt.data import Bernoulli, WithoutReplacement, WithReplacement, augment, digits, partition
from dsgt.networks import TorchPeers
from dsgt.problems import Logistic, Model, Problem, lenet
from dsgt.randomness import seeded
from dsgt.topologies.weights import metropolis
from support.launch import HANGING

ROUNDS, SEED, LR = 15, 4, 0.1


def weights(n: int):
    return metropolis(nx.cycle_graph(n) if n > 2 else nx.path_graph(n))


def problems(n: int) -> dict[str, Problem]:
    """Uneven and skewed, in float64."""
    vectors, test = digits(dtype=torch.float64)
    images, _ = digits(dtype=torch.float64, images=True)
    shards = partition.dirichlet(vectors.targets, n, alpha=0.5)
    return {
        "logistic": Logistic(vectors, shards, WithReplacement(eta=0.05), test=test, l2=0.01),
        "bernoulli": Logistic(vectors, shards, Bernoulli(0.05), test=test),
        "as they are": as_it_is(n, torch.float64),
        "as they are, float32": as_it_is(n, torch.float32),
        "lenet": Model(lenet(channels=1, size=8), images, shards, WithoutReplacement(eta=0.05)),
    }


def as_it_is(n: int, dtype: torch.dtype) -> Model:
    """A module with BatchNorm and dropout, on images that are moved about."""
    images, test = digits(dtype=dtype, images=True)
    shards = partition.dirichlet(images.targets, n, alpha=0.5)
    with seeded(0):
        layers = (nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(108, 10))
    module, drawn = nn.Sequential(*layers), WithReplacement(eta=0.05)
    return Model(module, images, shards, drawn, test=test, augment=partial(augment.crop_flip, padding=1))


def path(problem: Problem, network: Network) -> torch.Tensor:
    local = problem if network.node is None else problem[network.node]
    states = iterate(DSGT(), local.oracle(SEED), network, problem.start(SEED), LR)
    return torch.stack([s.x for s in itertools.islice(states, ROUNDS + 1)])


def table(problem: Problem, network: Network) -> list[dict[str, float]]:
    wanted = {name: m for name, m in metrics.DEFAULT.items() if name != "seconds"} | {"tracking": metrics.tracking}
    if isinstance(problem, Model) and not problem.is_function:
        wanted |= {"accuracy": metrics.accuracy, "node_loss": metrics.node_loss_mean}
    return run(DSGT(), problem, network, rounds=6, lr=LR, every=3, seed=SEED, metrics=wanted).rows


if __name__ == "__main__":
    n, folder = int(sys.argv[1]), Path(sys.argv[2])
    found = {}
    dist.init_process_group("gloo", timeout=timedelta(seconds=HANGING))  # once for all the networks below
    for name, problem in problems(n).items():
        with TorchPeers(weights(n), timeout=HANGING) as network:
            found[name, "path"] = path(problem, network)
        with TorchPeers(weights(n), timeout=HANGING) as network:
            found[name, "table"] = table(problem, network)
    torch.save(found, folder / f"node{dist.get_rank()}.pt")
    dist.destroy_process_group()
