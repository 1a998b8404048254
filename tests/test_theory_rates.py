"""The rates of the theorems and network independence, measured."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch

from dsgt.theory import diminishing, typical_ratio
from dsgt.theory.independence import (
    independence,
    independent_step,
    network_ratio,
    rounds_with_balanced_step,
    rounds_with_diminishing_step,
    typical_rounds,
)
from dsgt.topologies.weights import metropolis
from support.theory_problems import F64, NETWORKS, SHAPES, Known, constants, known, run_known

NODES = 12
GRAPHS = {
    "complete": np.full((NODES, NODES), 1 / NODES),
    "5-regular": metropolis(nx.random_regular_graph(5, NODES, seed=1)),
    "ring": metropolis(nx.cycle_graph(NODES)),
    "star": metropolis(nx.star_graph(NODES - 1)),
    "path": metropolis(nx.path_graph(NODES)),
}


def fitted_slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The slope of log y over log x, and half of its 95 percent confidence interval."""
    u, v = np.log(x), np.log(y)
    A = np.stack([u, np.ones_like(u)], axis=1)
    fit = np.linalg.lstsq(A, v, rcond=None)[0]
    error = np.sqrt(((v - A @ fit) ** 2).sum() / (len(u) - 2) * np.linalg.inv(A.T @ A)[0, 0])
    return float(fit[0]), 1.96 * float(error)


@pytest.mark.parametrize("shape", SHAPES)
def test_without_noise_the_rate_is_1_over_K(shape: str):
    p, W = known(shape, 6), NETWORKS["ring"]
    lr = 0.8 / p.L
    trace = run_known(p, W, lambda k: lr, 1500)
    K = np.unique(np.geomspace(50, 1500, 12).astype(int))
    slope, half = fitted_slope(K, trace.mean(trace.stationarity, lambda k: lr)[K - 1])
    assert half < 0.05
    assert slope == pytest.approx(-1, abs=0.05 + half)  # the first rounds still count at K = 50


@pytest.mark.parametrize("shape", ["quadratic", "log(1 + u^2)"])
def test_with_noise_and_the_step_of_corollary_2_the_rate_is_1_over_sqrt_K(shape: str):
    p, W, sigma = known(shape, 6), NETWORKS["ring"], 3.0
    c = constants(p, W, sigma=sigma)
    K = np.array([1000, 2000, 4000, 8000])
    R = []
    for rounds in K:
        step = c.D / (math.sqrt(rounds) * c.L * sigma)
        R.append(run_known(p, W, lambda k, step=step: step, int(rounds), sigma=sigma, seeds=64).stationarity.mean())
    slope, half = fitted_slope(K, np.array(R))
    assert half < 0.05
    assert slope == pytest.approx(-0.5, abs=0.04 + half)  # the terms that fall like 1/K still count at K = 1000


@pytest.mark.parametrize("p", [0.5, 0.6, 0.75])
def test_with_steps_a_over_k_to_the_p_the_rate_is_1_over_k_to_the_1_minus_p(p: float):
    problem, W = known("quadratic", 6), NETWORKS["ring"]
    lr = diminishing(0.5 / problem.L, p)
    trace = run_known(problem, W, lr, 6000, sigma=1.0, seeds=16)
    K = np.unique(np.geomspace(600, 6000, 12).astype(int))
    slope, half = fitted_slope(K, trace.mean(trace.stationarity, lr)[K - 1])
    assert half < 0.01
    # the sum of the steps is (K^(1-p) - 1)/(1-p) and a constant, not yet a pure power: 0.04 off at p = 0.75
    assert slope == pytest.approx(-(1 - p), abs=0.05)


@pytest.mark.parametrize("shape", ["quadratic", "log(1 + u^2)"])
def test_rounds_to_a_target_become_equal_on_all_graphs_as_the_step_falls(shape: str):
    p = known(shape, NODES)
    spread = []
    for lr_L in (0.125, 0.03, 0.008):
        rounds = []
        for W in GRAPHS.values():
            trace = run_known(p, W, lambda k, lr=lr_L / p.L: lr, int(26 / lr_L), sigma=1.0, seeds=8)
            window = max(1, int(0.5 / lr_L))
            smooth = np.convolve(trace.stationarity, np.ones(window) / window, "valid")
            hits = np.flatnonzero(smooth <= 0.05 * trace.gradient[0])
            rounds.append(hits[0] + window if len(hits) else math.inf)
        spread.append(max(rounds) / min(rounds))
    assert spread[0] > 1.5  # the path never arrives with the largest step
    assert spread[1] < spread[0]
    assert spread[2] < 1.05


def equal_quadratics() -> Known:
    return Known(SHAPES["quadratic"], torch.ones(NODES, 1, dtype=F64), torch.zeros(NODES, 2, dtype=F64))


@pytest.mark.parametrize("lr", [0.02, 0.3])
@pytest.mark.parametrize("graph", ["5-regular", "ring", "star", "path"])
def test_the_typical_ratio_of_disagreement_to_noise_is_what_runs_show(graph: str, lr: float):
    p, W = equal_quadratics(), GRAPHS[graph]
    trace = run_known(p, W, lambda k: lr, 1500, sigma=2.0, seeds=48)
    late = slice(300, None)
    measured = NODES * p.L**2 * trace.disagreement[late].mean() / trace.gradient[late].mean()
    assert measured == pytest.approx(typical_ratio(W, lr * p.L), rel=0.1)  # 48 seeds of 1200 correlated rounds


@pytest.mark.parametrize("graph", ["ring", "path"])
def test_the_predicted_number_of_rounds_for_independence_is_of_the_right_order(graph: str):
    """Where the network is predicted to cost as much as the noise, it costs between half and twice as much."""
    p, W, sigma = equal_quadratics(), GRAPHS[graph], 2.0
    x1 = torch.full((NODES, 2), 0.3, dtype=F64)
    c = constants(p, W, sigma=sigma, x1=x1)
    K = round(typical_rounds(c, W))
    assert 100 < K < 20_000
    step = c.D / (math.sqrt(K) * c.L * sigma)
    trace = run_known(p, W, lambda k: step, 2000, sigma=sigma, seeds=16)
    late = slice(500, None)
    assert 0.5 < NODES * p.L**2 * trace.disagreement[late].mean() / trace.gradient[late].mean() < 2
    assert rounds_with_balanced_step(c) > K  # the theorem's K is a worst case


def test_the_independent_step_meets_the_assumption_and_a_larger_one_does_not():
    c = constants(known("quadratic", 6), NETWORKS["path"], sigma=1.0)
    step = independent_step(c)
    assert network_ratio(c, step, 100) == pytest.approx(1)
    found = independence(c, 2 * step, 100)
    assert not found.met
    assert found.ratio == pytest.approx(2)
    assert found.largest_step == step
    assert independence(c, step / 2, 100).met


def test_balanced_steps_meet_the_assumption_from_the_predicted_round_on():
    c = constants(known("quadratic", 6), NETWORKS["ring"], sigma=1.0)
    K = rounds_with_balanced_step(c)
    for rounds, met in ((K / 2, False), (2 * K, True)):
        assert (network_ratio(c, c.D / (math.sqrt(rounds) * c.L), round(rounds)) <= 1) == met


def test_diminishing_steps_meet_the_assumption_in_time_or_never():
    c = constants(known("quadratic", 6), NETWORKS["random"], sigma=1.0)
    a = c.largest_step
    K = rounds_with_diminishing_step(c, a, 0.5, allowed=20.0)
    assert 1 < K < math.inf
    assert network_ratio(c, diminishing(a, 0.5), int(K)) <= 20 < network_ratio(c, diminishing(a, 0.5), int(K) - 1)
    assert rounds_with_diminishing_step(c, a, 0.9, allowed=1.0, limit=10_000) == math.inf


def test_averaging_weights_and_exact_gradients_are_independent_of_the_network_from_the_start():
    c = constants(known("quadratic", 6), NETWORKS["complete"], sigma=1.0)
    assert independence(c, c.largest_step, 10).ratio == 0
    assert independent_step(c) == c.largest_step
    exact = constants(known("quadratic", 6), NETWORKS["path"])
    assert rounds_with_balanced_step(exact) == 0
    assert independence(exact, exact.largest_step, 10).met
