"""Small simulations: a run computed by NumPy is the same run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dsgt
from dsgt import data, problems
from dsgt.core import Algorithm, Mix, tensors
from dsgt.engine import numpy_rounds
from dsgt.networks import Clocked, Cycle, Dense, stragglers
from dsgt.topologies import averaging, metropolis
from support.cases import CASES, F64, graph, quadratic
from support.interrupted import problem
from support.nonlinear_methods import Clipped, Together

N = 6


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_rounds, "MOST_NUMBERS", 0)


def go(algorithm: Algorithm[Any], network: Dense, **options: Any) -> dsgt.Result[Any]:
    settings: dict[str, Any] = {"rounds": 40, "every": 7, "lr": lambda k: 0.1 / (k + 1)}
    return dsgt.run(algorithm, problem(N), network, **(settings | options))


@pytest.mark.parametrize("name", CASES)
def test_a_run_by_numpy_is_the_same_run(name: str, request: pytest.FixtureRequest) -> None:
    case = CASES[name]
    W = case.weights(graph(N))
    small, usual = Dense(W), Dense(W)
    found = go(case.algorithm, small)
    request.getfixturevalue("by_torch")
    expected = go(case.algorithm, usual)
    assert [row["round"] for row in found.rows] == [row["round"] for row in expected.rows]
    for field, value in tensors(expected.state).items():
        assert (value - tensors(found.state)[field]).abs().max() < 1e-12, field  # products may round in another order
    assert small.traffic == usual.traffic


def test_the_methods_text_is_given_arrays_in_a_small_run_only(request: pytest.FixtureRequest) -> None:
    seen = set()

    class Watched(dsgt.DSGT):
        arithmetic = True

        def update(self, s: Any, g: Any, mix: Mix, lr: float) -> Any:
            seen.add(type(g).__name__)
            return super().update(s, g, mix, lr)

    go(Watched(), Dense(metropolis(graph(N))))
    assert seen == {"ndarray"}
    request.getfixturevalue("by_torch")
    go(Watched(), Dense(metropolis(graph(N))))
    assert seen == {"ndarray", "Tensor"}


def test_nodes_that_average_everything_agree_to_the_last_bit() -> None:
    x = go(dsgt.SGD(), Dense(averaging(N))).x
    assert torch.equal(x, x[:1].expand_as(x))


def test_a_diverging_run_is_stopped_where_torch_stops_it(request: pytest.FixtureRequest) -> None:
    rounds = []
    for _ in range(2):
        with pytest.raises(dsgt.DivergedError) as caught:  # and no warning of an overflow
            go(dsgt.DSGT(), Dense(metropolis(graph(N))), lr=1e6, rounds=400, every=400)
        rounds.append(caught.value.k)
        request.getfixturevalue("by_torch")
    assert rounds[0] == rounds[1]


def test_derivatives_of_a_run_are_torchs_to_compute() -> None:
    start = torch.zeros(N, 5, dtype=F64, requires_grad=True)
    states = dsgt.iterate(dsgt.DSGT(), quadratic(N).full, metropolis(graph(N)), start, 0.01)
    for _ in range(4):
        state = next(states)
    state.x.sum().backward()
    assert start.grad is not None
    assert start.grad.abs().min() > 0


def test_a_learning_rate_of_numpys_does_not_change_the_precision() -> None:
    least = problem(N)
    single = problems.LeastSquares(
        data.Samples(least.data.features.float(), least.data.targets.float()), least.shards, least.sampling
    )
    for lr in (np.float64(0.01), lambda k: 0.01 / np.sqrt(k + 1)):
        assert dsgt.run(dsgt.DSGT(), single, metropolis(graph(N)), rounds=3, lr=lr).x.dtype == torch.float32


def test_a_schedule_is_asked_once_a_round() -> None:
    asked: list[int] = []

    def lr(k: int) -> float:
        asked.append(k)
        return 0.01

    go(dsgt.DSGT(), Dense(metropolis(graph(N))), lr=lr)
    assert asked == [0, *range(40)]  # the first is looked at before any work


def test_products_that_blas_would_share_among_threads_are_torchs() -> None:
    with torch.no_grad():
        assert numpy_rounds.is_worthwhile(dsgt.DSGT(), Dense(metropolis(graph(24))), torch.zeros(24, 51))
        assert not numpy_rounds.is_worthwhile(dsgt.DSGT(), Dense(metropolis(graph(100))), torch.zeros(100, 120))


def test_a_method_that_does_not_say_it_is_arithmetic_is_given_tensors() -> None:
    assert go(Clipped(), Dense(metropolis(graph(N)))).x.isfinite().all()


def test_a_subclass_with_an_update_of_its_own_must_say_it_again() -> None:
    class Clamped(dsgt.DSGT):
        def update(self, s: Any, g: Tensor, mix: Mix, lr: float) -> Any:
            return super().update(s, g.clamp(-1, 1), mix, lr)

    assert not Clamped.arithmetic
    assert go(Clamped(), Dense(metropolis(graph(N)))).x.isfinite().all()


def test_a_method_that_mixes_together_is_the_same_by_numpy(request: pytest.FixtureRequest) -> None:
    found = go(Together(), Dense(metropolis(graph(N))))
    request.getfixturevalue("by_torch")
    assert (go(Together(), Dense(metropolis(graph(N)))).x - found.x).abs().max() < 1e-12  # products round differently


def clocked(W: np.ndarray) -> Clocked:
    return Clocked(W, compute=stragglers(N, mean=1.0, spread=0.5, seed=0), latency=0.3, bandwidth=1e3)


@pytest.mark.parametrize("name", CASES)
def test_a_clock_shows_the_same_times_by_numpy(name: str, request: pytest.FixtureRequest) -> None:
    W = CASES[name].weights(graph(N))
    small, usual = clocked(W), clocked(W)
    seen: list[dict[str, float]] = []
    options: dict[str, Any] = {"metrics": {"t": dsgt.metrics.virtual_seconds}, "watch": seen.append}
    found = go(CASES[name].algorithm, small, **options)
    by_numpy, seen[:] = list(seen), []
    request.getfixturevalue("by_torch")
    expected = go(CASES[name].algorithm, usual, **options)
    assert by_numpy == seen
    assert (found.x - expected.x).abs().max() < 1e-12  # products may round in another order
    assert (small.clock == usual.clock).all()
    assert (small.link_free == usual.link_free).all()


def test_a_changing_network_is_the_same_by_numpy(request: pytest.FixtureRequest) -> None:
    W = metropolis(graph(N))
    members = [W, (np.eye(N) + W) / 2]
    small, usual = Dense(Cycle(members)), Clocked(Cycle(members), compute=1.0)
    found = go(dsgt.DSGT(), small)
    request.getfixturevalue("by_torch")
    expected = go(dsgt.DSGT(), usual)
    assert (found.x - expected.x).abs().max() < 1e-12  # products may round in another order
    assert small.traffic == usual.traffic


def test_the_methods_text_is_given_arrays_under_a_clock_and_on_a_changing_network_too() -> None:
    W = metropolis(graph(N))

    class Lossy(Dense):
        """A subclass may mix by torch's own functions."""

    with torch.no_grad():
        for network in (clocked(W), Dense(Cycle([W, W])), Clocked(Cycle([W]))):
            assert numpy_rounds.is_worthwhile(dsgt.DSGT(), network, torch.zeros(N, 5))
        for network in (Lossy(W), Clocked(Lossy(W))):
            assert not numpy_rounds.is_worthwhile(dsgt.DSGT(), network, torch.zeros(N, 5))
