"""The signature test: every method walks the same path in the simulator, under torchrun and under mpiexec."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

import dsgt
from support.cases import CASES, F64, graph, quadratic
from support.launch import TESTS, launch
from support.selected import selected_methods
from workers.peer_worker import LR, ROUNDS

WORLDS = ["torch 2", "torch 4", "torch 6", "mpi 2", "mpi 4"]
"""Launcher and nodes. With four nodes every path is walked twice: the second time messages travel in the background."""


@pytest.fixture(scope="module", params=WORLDS)
def nodes(request, tmp_path_factory) -> list[dict[tuple[str, str], list[torch.Tensor]]]:
    """What every node of a real network found; all methods in one start, because starting is what takes long."""
    kind, n = request.param.split()
    folder: Path = tmp_path_factory.mktemp("nodes")
    worker = str(TESTS / "workers" / "peer_worker.py")
    finished = launch(kind, int(n), worker, kind, str(folder), *selected_methods(request))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return [torch.load(folder / f"node{i}.pt") for i in range(int(n))]


def simulated(name: str, n: int) -> torch.Tensor:
    case = CASES[name]
    W = case.weights(graph(n))
    states = dsgt.iterate(case.algorithm, quadratic(n).stochastic, W, torch.zeros(5, dtype=F64), LR)
    return torch.stack([s.x for s in itertools.islice(states, ROUNDS + 1)])


@pytest.mark.parametrize("way", ["iterate", "optimizer"])
@pytest.mark.parametrize("name", CASES)
def test_real_nodes_walk_the_simulated_path(nodes, name: str, way: str):
    expected = simulated(name, len(nodes))
    assert expected[-1].norm() > 1  # it moved
    walks = [torch.stack(walk, dim=1) for walk in zip(*(node[name, way] for node in nodes), strict=True)]
    assert len(walks) == (2 if len(nodes) == 4 else 1)
    for found in walks:
        assert ((found - expected).norm() / expected.norm()).item() < 1e-12
