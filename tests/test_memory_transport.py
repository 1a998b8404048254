"""Nodes that are threads of one process: they are real nodes in every respect but the wire."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dsgt
from dsgt.core import tensors
from dsgt.networks import Dense, Peers, in_threads
from dsgt.networks.memory import MemoryTransport, Switchboard
from dsgt.topologies import averaging, metropolis
from dsgt.topologies.changing import Fixed
from support.cases import CASES, F64, graph, quadratic

N, ROUNDS, LR = 4, 12, 0.02


def path(algorithm: Any, network: dsgt.Network) -> torch.Tensor:
    problem = quadratic(N)
    i = network.node
    grad = problem.full if i is None else lambda x, k: problem.node_gradient(i, x)
    run = dsgt.iterate(algorithm, grad, network, torch.zeros_like(problem.optimum), LR)
    return torch.stack([next(run).x.clone() for _ in range(ROUNDS)])


@pytest.mark.parametrize("name", CASES)
def test_threads_walk_the_path_of_the_simulator(name: str) -> None:
    W = CASES[name].weights(graph(N))
    expected = path(CASES[name].algorithm, Dense(W))
    found = torch.stack(in_threads(W, lambda network: path(CASES[name].algorithm, network)), dim=1)
    assert (found - expected).abs().max() < 1e-12  # sums over neighbours are rounded in another order


def test_large_messages_travel_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsgt.networks.peers.BACKGROUND_FROM", 1)
    W = metropolis(graph(N))
    expected = path(dsgt.DSGT(), Dense(W))
    found = torch.stack(in_threads(W, lambda network: path(dsgt.DSGT(), network)), dim=1)
    assert (found - expected).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("beside", "threads", "cores", "hidden"),
    [(None, 8, 1, True), (N, 1, N, False), (N, 1, N + 1, True), (1, 4, 4, False)],
)
def test_where_all_cores_compute_no_thread_more_is_started(
    beside: int | None, threads: int, cores: int, hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsgt.networks.peers.BACKGROUND_FROM", 1)
    monkeypatch.setattr("dsgt.networks.peers.cores", lambda: cores)
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    monkeypatch.setattr("dsgt.networks.memory.MemoryTransport.beside", beside)

    def act(network: Peers) -> bool:
        network.start(torch.ones(3, dtype=F64)).wait()
        return network._background is not None

    assert in_threads(metropolis(graph(N)), act) == [hidden] * N


def test_all_reduce_gather_and_mean() -> None:
    def act(network: Peers) -> tuple[torch.Tensor, ...]:
        v = torch.tensor([1.0 + network.node, 2.0], dtype=F64)
        return network.gather(v), network.mean(v), network(v)

    for rows, mean, mixed in in_threads(averaging(3), act):
        assert torch.equal(rows, torch.tensor([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]], dtype=F64))
        assert torch.equal(mean, torch.tensor([2.0, 2.0], dtype=F64))
        assert torch.equal(mixed, mean)


@pytest.mark.parametrize("all_reduce", [True, False])
def test_nodes_send_what_the_simulator_counts_where_everybody_averages(all_reduce: bool) -> None:
    weights = Fixed(averaging(5), all_reduce=all_reduce)

    def act(network: Peers) -> tuple[torch.Tensor, int]:
        v = torch.arange(5.0, dtype=F64) + network.node
        return torch.stack([network(v), network.start(v).wait(), network(v)]), network.bytes_sent

    simulated = Dense(weights)
    for _ in range(3):
        mixed = simulated(torch.arange(5.0, dtype=F64) + torch.arange(5.0, dtype=F64)[:, None])
    for node, (found, sent) in enumerate(in_threads(weights, act)):
        torch.testing.assert_close(found, mixed[node].expand(3, -1), rtol=1e-12, atol=0)
        assert sent == simulated.bytes_sent == 3 * (8 if all_reduce else 20) * 5 * 8


def test_an_error_at_one_node_ends_all_and_is_the_one_that_is_raised() -> None:
    def act(network: Peers) -> None:
        for _ in range(3):
            if network.node == 1:
                raise KeyError("a bug of node 1")
            network(torch.zeros(2))

    with pytest.raises(KeyError, match="a bug of node 1"):
        in_threads(metropolis(graph(N)), act)


def test_a_silent_neighbour_is_named() -> None:
    finished = threading.Event()

    def act(network: Peers) -> None:
        if network.node == 0:
            try:
                network(torch.zeros(2))
            finally:
                finished.set()
        finished.wait()

    with pytest.raises(dsgt.NeighbourError, match="node 0 heard nothing from its neighbour, node 1,"):
        in_threads([[0.6, 0.4], [0.4, 0.6]], act, timeout=0.2)


def test_a_network_of_another_size_says_how_to_make_it_fit() -> None:
    with pytest.raises(ValueError, match="W joins 2 nodes, but this job has 3 processes"):
        Peers(np.full((2, 2), 0.5), MemoryTransport(Switchboard(3), 0))


def test_optimizers_in_threads_train_one_model() -> None:
    def act(network: Peers) -> dict[str, torch.Tensor]:
        draw = torch.Generator().manual_seed(network.node or 0)
        inputs = torch.randn(20 + 5 * network.node, 3, generator=draw, dtype=F64)
        targets = inputs.sum(dim=1, keepdim=True)
        model = nn.Linear(3, 1, dtype=F64)
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.2, samples=len(inputs))
        for _ in range(300):
            optimizer.zero_grad()
            (model(inputs) - targets).pow(2).mean().backward()
            optimizer.step()
        assert set(tensors(optimizer._state)) == {"x", "g", "Wy"}
        return {k: v.clone() for k, v in model.state_dict().items()}

    for state in in_threads(metropolis(graph(N)), act):
        assert torch.allclose(state["weight"], torch.ones(1, 3, dtype=F64), atol=1e-6)
