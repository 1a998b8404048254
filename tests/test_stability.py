"""The exact limits of ALGORITHMS section 2, the paper's Example 1, and two of its formulas that need an erratum."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

import dsgt
from dsgt.core import Algorithm
from dsgt.networks import Dense
from dsgt.topologies.weights import metropolis
from support.cases import CASES, F64, graph, quadratic

PATH3 = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
NETWORKS = {
    "the optimal 3-path, lambda_n = -0.5": PATH3,
    "Metropolis on a random graph": metropolis(graph(8)),
    "almost periodic, lambda_n = -0.8": np.array([[0.1, 0.9], [0.9, 0.1]]),
    "lazy, no negative eigenvalue": (np.eye(8) + metropolis(graph(8))) / 2,
}


def distance(algorithm: Algorithm, W: np.ndarray, lr: float, rounds: int) -> float:
    """How far the nodes are from the minimiser of sum (x - a_i)^2 / 2, growth cut off at 1e12.

    Runs the two pure functions directly: ``iterate`` would refuse what the method is not made for."""
    a = torch.arange(len(W), dtype=F64)[:, None] ** 2
    network = Dense(W)
    state = algorithm.init(torch.ones(len(W), 1, dtype=F64), network.at(0))
    for k in range(rounds):
        state = algorithm.update(state, state.x - a, network.at(k), lr)
        if k % 100 == 0 and not state.x.abs().max() < 1e12:
            return np.inf
        if k % 100 == 0 and (state.x - a.mean()).abs().max() < 1e-9:
            break
    return (state.x - a.mean()).abs().max().item()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.limit])
@pytest.mark.parametrize("network", NETWORKS)
def test_converges_just_below_its_limit_and_not_just_above(name: str, network: str):
    case, W = CASES[name], NETWORKS[network]
    low = np.linalg.eigvalsh(W)[0]
    if (floor := case.algorithm.needs.floor) is not None and low <= floor:
        pytest.skip("below the smallest eigenvalue that the method may use; that end is tested below")
    limit = case.limit(low)
    below, above = (distance(case.algorithm, W, f * limit, 20_000) for f in (0.99, 1.01))
    biased = 0 if case.algorithm.exact else 100 * limit  # stops beside the optimum, but stops
    assert below < 1e-6 + biased
    assert above > 1e6


@pytest.mark.parametrize(
    ("name", "lr", "converges"),
    [
        ("d2", 0.49, False),
        ("d2", 0.51, True),
        ("d2", 1.99, True),
        ("d2", 2.01, False),
        ("dsgt", 1.49, True),
        ("dsgt", 1.51, False),
        ("gnsd", 0.12, True),
        ("gnsd", 0.13, False),
        ("extra", 0.87, True),
        ("extra", 0.88, False),
        ("exact-diffusion", 1.99, True),
    ],
)
def test_the_thresholds_of_the_papers_example_1(name: str, lr: float, converges: bool):
    assert (distance(CASES[name].algorithm, PATH3, lr, 5000) < 1e-6) == converges


def test_metropolis_on_k33_breaks_d2():
    W = metropolis(nx.complete_bipartite_graph(3, 3))
    assert distance(CASES["d2"].algorithm, W, 0.1, 3000) == np.inf
    assert distance(CASES["dsgt"].algorithm, W, 0.1, 3000) < 1e-9


def almost_periodic(low: float) -> np.ndarray:
    return np.array([[1 + low, 1 - low], [1 - low, 1 + low]]) / 2


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.algorithm.needs.floor is not None])
def test_just_below_the_smallest_eigenvalue_it_may_use_a_small_step_diverges(name: str):
    algorithm = CASES[name].algorithm
    above, below = (almost_periodic(algorithm.needs.floor + d) for d in (0.01, -0.01))
    assert distance(algorithm, above, 1e-3, 20_000) < 10
    assert distance(algorithm, below, 1e-3, 20_000) > 1e6


def test_the_eigenvalue_that_quasi_global_momentum_needs_follows_from_its_parameters():
    for beta, mu in ((0.5, 0.5), (0.9, 0.1), (0.1, 0.9)):
        algorithm = dsgt.QGDSGDm(beta, mu)
        above, below = (almost_periodic(algorithm.needs.floor + d) for d in (0.005, -0.005))
        assert distance(algorithm, above, 1e-4, 20_000) < 10
        assert distance(algorithm, below, 1e-4, 40_000) > 1e6
    with pytest.raises(ValueError, match=r"QGDSGDm needs the smallest eigenvalue of W above -0\.75"):
        dsgt.iterate(dsgt.QGDSGDm(0.5, 0.5), lambda x, k: x, almost_periodic(-0.8), torch.zeros(1, dtype=F64), 0.1)


@pytest.mark.parametrize("algorithm", [dsgt.DecentLaM(), dsgt.QGDSGDm()])
def test_momentum_that_needs_a_symmetric_w_diverges_on_a_directed_ring(algorithm: Algorithm):
    n = 24
    W = (np.eye(n) + np.roll(np.eye(n), 1, axis=1)) / 2
    assert distance(algorithm, W, 1e-3, 5000) > 1e6
    assert distance(dsgt.MomentumDSGD(), W, 1e-3, 5000) < 1e3
    with pytest.raises(ValueError, match="needs a symmetric W"):
        dsgt.iterate(algorithm, lambda x, k: x, W, torch.zeros(1, dtype=F64), 0.1)


def dsgt_models(W: np.ndarray, lr, rounds: int) -> tuple[list[Tensor], list[Tensor]]:
    """The models and gradients of a stochastic DSGT run."""
    problem, network = quadratic(len(W)), Dense(W)
    algorithm = CASES["dsgt"].algorithm
    state = algorithm.init(torch.ones(len(W), 5, dtype=F64), network.at(0))
    xs, gs = [state.x], []
    for k in range(rounds):
        gs.append(problem.stochastic(state.x, k))
        state = algorithm.update(state, gs[-1], network.at(k), lr(k))
        xs.append(state.x)
    return xs, gs


def test_the_printed_momentum_form_is_wrong_from_the_third_step_and_the_corrected_one_right():
    W, lr = metropolis(graph(6)), 0.02
    xs, gs = dsgt_models(W, lambda k: lr, 8)
    A, eye = torch.from_numpy(W), torch.eye(6, dtype=F64)
    power = torch.linalg.matrix_power

    def printed(k: int) -> Tensor:  # k = 1, 2, ... as in the paper; xs[k - 1] is its X_k
        return A @ xs[k - 1] - lr * sum(A @ power(A - eye, t) @ gs[k - 1 - t] for t in range(k))

    def corrected(k: int) -> Tensor:
        past = sum((power(A, t) @ (A - eye) @ gs[k - 1 - t] for t in range(1, k)), torch.zeros_like(xs[0]))
        return A @ xs[k - 1] - lr * (A @ gs[k - 1] + past)

    for k in range(1, 9):
        assert (corrected(k) - xs[k]).abs().max() < 1e-14
        assert ((printed(k) - xs[k]).abs().max() < 1e-14) == (k <= 2)


def test_the_eliminated_form_needs_the_ratio_of_the_learning_rates():
    W = metropolis(graph(6))

    def lr(k: int) -> float:
        return 0.03 / (1 + k)

    xs, gs = dsgt_models(W, lr, 8)
    A = torch.from_numpy(W)
    for k in range(1, 8):
        r = lr(k) / lr(k - 1)
        step = lr(k) * A @ (gs[k] - gs[k - 1])
        right = (1 + r) * A @ xs[k] - r * A @ A @ xs[k - 1] - step
        naive = 2 * A @ xs[k] - A @ A @ xs[k - 1] - step
        assert (right - xs[k + 1]).abs().max() < 1e-13
        assert (naive - xs[k + 1]).abs().max() > 1e-4


def test_the_wrong_start_of_the_tracker_leaves_a_permanent_offset():
    """y = 0 beside s = the first gradient, instead of both 0: ALGORITHMS, section 8."""
    problem, network = quadratic(6), Dense(metropolis(graph(6)))
    algorithm = CASES["dsgt"].algorithm
    state = algorithm.init(torch.zeros(6, 5, dtype=F64), network.at(0))
    state = state._replace(g=problem.full(state.x, 0))
    for k in itertools.count():
        state = algorithm.update(state, problem.full(state.x, k), network.at(k), 0.03)
        if k == 5000:
            break
    assert (state.x - problem.optimum).norm() > 0.1
