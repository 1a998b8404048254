"""Published methods that are another one on a network made of the given one: ``Algorithm.over``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import dsgt
from dsgt.algorithms.named import label, method
from dsgt.cli import app
from dsgt.core import Algorithm, Gradient
from dsgt.gossip import accelerated
from dsgt.networks import Clocked, Dense, Peers, in_threads
from dsgt.topologies import Pairs, Periodic, averaging, metropolis
from support.cases import F64, Rounds, graph, quadratic
from support.interrupted import problem
from support.reference import REFERENCE

N = 6
W = metropolis(graph(N))
EACH = {
    "bianchi": ("atc-dpsgd", Pairs(W, seed=0)),
    "fedavg": ("atc-dpsgd", Periodic(averaging(N), 4)),
    "mg-dsgd": ("atc-dpsgd", accelerated(Dense(W), 4).weights),
    "detag": ("dsgt", accelerated(Dense(W), 4).weights),
}
"""Which method it is, and over which weights."""
each = pytest.mark.parametrize("name", EACH)


def starts() -> Tensor:
    return torch.randn(N, 5, dtype=F64, generator=torch.Generator().manual_seed(3))


def path(algorithm: Algorithm[Any], network: Any, rounds: int = 60) -> Tensor:
    states = dsgt.iterate(algorithm, quadratic(N).stochastic, network, starts(), 0.02)
    return torch.stack([s.x for s in itertools.islice(states, rounds + 1)])


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def test_every_composition_is_tested():
    """Here, with its oracle in tests/test_variance_reduction.py, or, if it is fitted, in tests/test_dual_methods.py."""
    kinds = {n: kind for n, kind in dsgt.algorithms.COMPOSITIONS.items() if kind.fitted is Algorithm.fitted}
    assert EACH.keys() == {n for n, kind in kinds.items() if type(kind().asks) is Gradient}


@each
def test_it_is_the_published_recursion_of_the_other_method_over_these_weights(name: str):
    other, weights = EACH[name]

    def G(X: np.ndarray, k: int) -> np.ndarray:
        return quadratic(N).stochastic(torch.from_numpy(X), k).numpy()

    expected = REFERENCE[other](G, Rounds(weights), starts().numpy(), lambda k: 0.02, 60)
    found = path(method(name), W)
    assert relative(found, torch.from_numpy(np.stack(expected))) < 1e-12  # gossip of many rounds, as flows
    assert relative(found, path(method(other), W)) > 1e-3  # the network was changed


@each
def test_real_nodes_the_clock_and_a_resumed_run_take_it_too(name: str, tmp_path: Path):
    expected = path(method(name), W)

    def act(network: Peers) -> Tensor:
        def grad(x: Tensor, k: int) -> Tensor:
            return quadratic(N).node_gradient(network.node, x, k)

        states = dsgt.iterate(method(name), grad, network, starts(), 0.02)
        return torch.stack([s.x.clone() for s in itertools.islice(states, 61)])

    assert relative(torch.stack(in_threads(W, act, timeout=60), dim=1), expected) < 1e-12
    assert relative(path(method(name), Clocked(W, compute=1.0)), expected) < 1e-12
    options = {"lr": 0.02, "checkpoint_dir": tmp_path}
    dsgt.run(method(name), problem(N), W, rounds=7, **options)
    resumed = dsgt.run(method(name), problem(N), W, rounds=20, resume=True, **options)
    assert torch.equal(resumed.x, dsgt.run(method(name), problem(N), W, rounds=20, lr=0.02).x)


@each
def test_the_optimizer_makes_the_network_once_and_steps_over_it(name: str):
    def act(network: Peers) -> tuple[Tensor, Tensor]:
        model = nn.Linear(5, 1, bias=False, dtype=F64)
        nn.init.zeros_(model.weight)
        optimizer = dsgt.Optimizer(model.parameters(), method(name), network, lr=0.02)
        for k in range(12):
            model.weight.grad = quadratic(N).node_gradient(network.node, model.weight.detach()[0], k)[None]
            optimizer.step()
        return model.weight.detach()[0]

    states = dsgt.iterate(method(name), quadratic(N).stochastic, W, torch.zeros(5, dtype=F64), 0.02)
    expected = next(itertools.islice(states, 12, None)).x
    assert relative(torch.stack(in_threads(W, act, timeout=60)), expected) < 1e-12


@each
def test_it_has_a_name_on_the_command_line(name: str):
    assert label(method(name)) == name
    shown = CliRunner().invoke(app, ["methods", name])
    assert shown.exit_code == 0
    assert "Guarantee:" in shown.output
    assert name in CliRunner().invoke(app, ["methods"], env={"COLUMNS": "200"}).output


def test_parameters_come_from_text_and_are_checked():
    assert method("fedavg:K=3") == dsgt.FedAvg(3)
    assert label(dsgt.DeTAG(R=2)) == "detag:R=2"
    assert dsgt.FedAvg(5).sends == 1 / 5
    assert dsgt.MGDSGD(3).sends == 3
    assert dsgt.DeTAG(R=3).sends == 6
    with pytest.raises(ValueError, match="K of FedAvg is 0; expected at least 1"):
        method("fedavg:K=0")


def test_fedavg_with_one_step_is_centralized_sgd():
    start = starts().mean(dim=0)
    states = dsgt.iterate(dsgt.FedAvg(1), quadratic(N).stochastic, W, start, 0.02)
    centralized = dsgt.iterate(dsgt.SGD(), quadratic(N).stochastic, averaging(N), start, 0.02)
    for found, expected in itertools.islice(zip(states, centralized, strict=False), 50):
        assert relative(found.x, expected.x) < 1e-13


def missed(algorithm: Algorithm[Any], network: Any, lr: float, rounds: int, least: Any) -> float:
    states = dsgt.iterate(algorithm, least.full, network, torch.zeros(5, dtype=F64), lr)
    return (next(itertools.islice(states, rounds, None)).x - least.optimum).norm().item()


def test_more_gossip_leaves_less_bias_and_with_tracking_none():
    least = quadratic(N)
    bias = [missed(dsgt.MGDSGD(R), W, 0.02, 2000, least) for R in (1, 4, 8)]
    assert bias[0] > 3 * bias[1] > 9 * bias[2]
    assert missed(dsgt.DeTAG(R=2), W, 0.05, 3000, least) < 1e-9


@torch.no_grad()
def test_on_a_ring_of_64_accelerated_gossip_needs_fewer_rounds_and_fewer_messages_than_plain_gossip():
    """To be within 0.05 of the optimum at every node: the bias of a constant step decides how large it may be."""
    ring = metropolis(nx.cycle_graph(64))
    a = torch.randn(64, 3, dtype=F64, generator=torch.Generator().manual_seed(0))

    def rounds(algorithm: Algorithm[Any], lr: float) -> int:
        states = dsgt.iterate(algorithm, lambda x, k: x - a, ring, torch.zeros(3, dtype=F64), lr)
        return next(k for k, s in enumerate(states) if (s.x - a.mean(dim=0)).abs().max() < 0.05)

    plain, gossip = rounds(dsgt.AtcDPSGD(), 3e-4), rounds(dsgt.MGDSGD(8), 1e-2)  # 6849 and 179 seen
    assert 30 * gossip < plain
    assert 3 * 8 * gossip < plain
    limit = np.linalg.solve(np.eye(64) - (1 - 5e-4) * ring, 5e-4 * ring @ a.numpy())
    assert abs(limit - a.numpy().mean(axis=0)).max() > 0.05  # so plain gossip could not have taken twice the step


def test_random_pairs_converge_with_a_falling_step():
    least = quadratic(N)
    states = dsgt.iterate(
        dsgt.Bianchi(), least.full, W, torch.zeros(5, dtype=F64), lambda k: 0.5 / (k + 50) ** 0.7
    )  # fmt: skip
    at = [(s.x - least.optimum).norm().item() for s in itertools.islice(states, 6001)]
    assert at[6000] < 0.3 * at[600] < 0.3 * at[0]


@each
def test_its_time_is_that_of_the_clock_it_was_given(name: str):
    clocked = Clocked(W, compute=1.0, latency=0.1)
    measured = {"t": dsgt.metrics.virtual_seconds}
    found = dsgt.run(method(name), problem(N), clocked, rounds=8, lr=0.01, every=4, metrics=measured).column("t")
    assert found[0] < found[1] < found[2] <= clocked.seconds  # the last message may still be on its way
    assert found[2] >= 8
