"""The signature test: every method walks the same path in the simulator, under torchrun and under mpiexec."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

import dsgt
from support.cases import F64, WALKED, graph, quadratic
from support.launch import TESTS, launch
from support.selected import selected
from workers.peer_worker import LR, WAYS, rounds_of

WORLDS = ["torch 4", "torch 2", "mpi 4", "mpi 2"]
"""Launcher and nodes. With four nodes every path is walked twice: the second time messages travel in the background."""


@pytest.fixture(scope="module")
def started(request, tmp_path_factory) -> Callable[[str], Path]:
    """Where the nodes of a launcher left what they found: every method and number of nodes that is asked for in one
    start, because starting is what takes long."""

    @cache
    def start(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        sizes = [world.split()[1] for world in selected(request, "world") if world.startswith(kind)]
        worker = str(TESTS / "workers" / "peer_worker.py")
        finished = launch(
            kind, max(map(int, sizes)), worker, kind, str(folder), ",".join(sizes), *selected(request, "name")
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return folder

    return start


@cache
def simulated(name: str, n: int) -> tuple[torch.Tensor, int]:
    """The path, and how many bytes were sent on it."""
    case = WALKED[name]
    network = dsgt.networks.Dense(case.weights(graph(n)))
    states = dsgt.iterate(case.algorithm, quadratic(n, l2=case.l2).local(), network, torch.zeros(5, dtype=F64), LR)
    path = torch.stack([s.x for s in itertools.islice(states, rounds_of(case) + 1)])
    return path, network.traffic.bytes


@pytest.mark.parametrize(("name", "way"), WAYS)
@pytest.mark.parametrize("world", WORLDS)
def test_real_nodes_walk_the_simulated_path(started, world: str, name: str, way: str):
    kind, n = world.split()
    expected, sent = simulated(name, int(n))
    assert expected[-1].norm() > 0.1  # it moved
    for how in ("", ", in the background")[: 1 + (n == "4")]:
        files = [started(kind) / f"{n} nodes, node {i}{how}.pt" for i in range(int(n))]
        walked = [torch.load(file) for file in files]
        found = torch.stack([w[name, way] for w in walked], dim=1)
        assert ((found - expected).norm() / expected.norm()).item() < 1e-12
        assert sum(w[name, "bytes"] for w in walked) == sent
