"""The signature test: every method walks the same path in the simulator, under torchrun and under mpiexec."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

import dsgt
from support.cases import CASES, CHANGING, F64, graph, quadratic
from support.launch import TESTS, launch
from support.selected import selected
from workers.peer_worker import LR, ROUNDS

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


def simulated(name: str, n: int) -> torch.Tensor:
    case = (CASES | CHANGING)[name]
    W = case.weights(graph(n))
    states = dsgt.iterate(case.algorithm, quadratic(n).stochastic, W, torch.zeros(5, dtype=F64), LR)
    return torch.stack([s.x for s in itertools.islice(states, ROUNDS + 1)])


@pytest.mark.parametrize("way", ["iterate", "optimizer"])
@pytest.mark.parametrize("name", CASES | CHANGING)
@pytest.mark.parametrize("world", WORLDS)
def test_real_nodes_walk_the_simulated_path(started, world: str, name: str, way: str):
    kind, n = world.split()
    expected = simulated(name, int(n))
    assert expected[-1].norm() > 1  # it moved
    for how in ("", ", in the background")[: 1 + (n == "4")]:
        files = [started(kind) / f"{n} nodes, node {i}{how}.pt" for i in range(int(n))]
        found = torch.stack([torch.load(file)[name, way] for file in files], dim=1)
        assert ((found - expected).norm() / expected.norm()).item() < 1e-12
