"""What holds for every method, once, over the table of tests/support/cases.py."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dsgt
from dsgt.core import Algorithm, Done, Pending, settle, tensors, with_tensors
from dsgt.networks import Cycle, Dense
from dsgt.run import iterate
from dsgt.topologies.matrix import to_dense
from dsgt.topologies.needs import complaints
from dsgt.topologies.weights import metropolis
from support.cases import (
    CASES,
    F64,
    KINDS,
    Case,
    HeavyBall,
    Quadratic,
    Rounds,
    changing,
    graph,
    lazy,
    quadratic,
    relabelled,
)
from support.reference import REFERENCE

N = 8
each = pytest.mark.parametrize("name", CASES)
EXACT = [name for name, case in CASES.items() if case.algorithm.exact]
PLAIN = [name for name, case in CASES.items() if case.mean == HeavyBall(0.0) and case.alone]
BIASED = [name for name, case in CASES.items() if not case.algorithm.exact and case.halves]
CHANGING = [name for name, case in CASES.items() if not case.algorithm.needs.static]


def allowed(case: Case, kind: str) -> bool:
    try:
        return not complaints(case.algorithm.needs, KINDS[kind](case.weights(graph(N))))
    except (ValueError, TypeError):  # weights that cannot be made of a directed matrix, or of two
        return False


OVER = [(name, kind) for name, case in CASES.items() for kind in KINDS if allowed(case, kind)]
"""Every method over every kind of weights that it may use."""


def trajectory(case: Case, grad, W, x0: Tensor, lr, rounds: int) -> list:
    return list(itertools.islice(iterate(case.algorithm, grad, W, x0, lr), rounds + 1))


def models(states: list) -> Tensor:
    return torch.stack([s.x for s in states])


def starts(n: int, case: Case) -> Tensor:
    """Different models, unless the method needs equal ones."""
    x = torch.randn(n, 5, dtype=F64, generator=torch.Generator().manual_seed(3))
    return x[:1].repeat(n, 1) if case.algorithm.equal_starts else x


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def test_the_table_of_cases_covers_every_method():
    assert {name: type(case.algorithm) for name, case in CASES.items()} == dsgt.ALGORITHMS
    assert CASES.keys() == REFERENCE.keys()


@pytest.mark.filterwarnings("ignore:CEDAS remembers")
@each
def test_equals_the_published_recursion_under_a_changing_learning_rate(name: str):
    case, problem = CASES[name], quadratic(N)
    W = case.weights(graph(N))

    def lr(k: int) -> float:
        return 0.03 / (1 + k / 20)

    def G(X: np.ndarray, k: int) -> np.ndarray:
        return problem.stochastic(torch.from_numpy(X), k).numpy()

    expected = REFERENCE[name](G, Rounds(W), starts(N, case).numpy(), lr, 60)
    found = models(trajectory(case, problem.stochastic, W, starts(N, case), lr, 60))
    assert relative(found, torch.from_numpy(np.stack(expected))) < 2e-13  # 60 rounds of round-off


@pytest.mark.parametrize("name", CHANGING)
def test_equals_the_published_recursion_on_a_network_that_changes(name: str):
    case, problem = CASES[name], quadratic(N)
    W = changing([case.weights(graph(N, seed=s)) for s in (1, 50, 100)])

    def G(X: np.ndarray, k: int) -> np.ndarray:
        return problem.stochastic(torch.from_numpy(X), k).numpy()

    expected = REFERENCE[name](G, Rounds(W), starts(N, case).numpy(), lambda k: 0.02, 40)
    found = models(trajectory(case, problem.stochastic, W, starts(N, case), 0.02, 40))
    assert relative(found, torch.from_numpy(np.stack(expected))) < 1e-13


@pytest.mark.parametrize(("name", "kind"), OVER)
def test_equals_the_published_recursion_over_weights_of_every_kind(name: str, kind: str):
    case, problem = CASES[name], quadratic(N)
    weights = KINDS[kind](case.weights(graph(N)))

    def G(X: np.ndarray, k: int) -> np.ndarray:
        return problem.stochastic(torch.from_numpy(X), k).numpy()

    second = {"answers": lambda k: to_dense(weights.push.at(k))}  # for those that use it
    also = second if "answers" in inspect.signature(REFERENCE[name]).parameters else {}
    expected = REFERENCE[name](G, Rounds(weights), starts(N, case).numpy(), lambda k: 0.02, 40, **also)
    found = models(trajectory(case, problem.stochastic, weights, starts(N, case), 0.02, 40))
    assert relative(found, torch.from_numpy(np.stack(expected))) < 1e-13


def mean_path(case: Case, problem: Quadratic, states: list, lr) -> tuple[Tensor, Tensor]:
    """Where the mean of the nodes was, and where it should have been."""
    found = torch.stack([getattr(s, case.carrier).mean(dim=0) for s in states])
    gradients = [problem.stochastic(s.x, k).mean(dim=0) for k, s in enumerate(states[:-1])]
    return found, torch.stack(case.mean(found[0], gradients, lr))


@pytest.mark.parametrize("name", PLAIN)
def test_one_node_alone_is_sgd_bit_for_bit(name: str):
    problem, x = quadratic(1), torch.zeros(5, dtype=F64)
    states = trajectory(CASES[name], problem.stochastic, [[1.0]], x, 0.05, 100)
    for k, state in enumerate(states):
        assert torch.equal(state.x[0], x)
        x = x - 0.05 * problem.node_gradient(0, x, k)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.alone])
def test_one_node_alone_moves_as_its_mean_does(name: str):
    case, problem = CASES[name], quadratic(1)
    states = trajectory(case, problem.stochastic, [[1.0]], torch.ones(5, dtype=F64), 0.05, 100)
    found, expected = mean_path(case, problem, states, lambda k: 0.05)
    assert relative(found, expected) < 1e-13  # 100 rounds of round-off
    assert relative(states[-1].x[0], found[-1]) < 1e-15


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.atc])
def test_averaging_everyone_is_centralized(name: str):
    case, problem, x = CASES[name], quadratic(N), torch.ones(5, dtype=F64)
    states = trajectory(case, problem.stochastic, np.full((N, N), 1 / N), x, 0.02, 60)
    gradients = [problem.stochastic(s.x[:1].expand(N, -1), k).mean(dim=0) for k, s in enumerate(states[:-1])]
    expected = torch.stack(case.mean(x, gradients, lambda k: 0.02))
    assert relative(models(states), expected[:, None].expand(-1, N, -1)) < 1e-12


@each
def test_invariants_hold_after_every_round(name: str):
    case, problem = CASES[name], quadratic(N)
    states = trajectory(case, problem.stochastic, case.weights(graph(N)), starts(N, case), 0.02, 200)
    for state in states[1:]:
        check_invariants(case, state)
    found, expected = mean_path(case, problem, states, lambda k: 0.02)
    assert relative(found, expected) < 1e-12 or not case.follows  # 200 rounds of round-off
    assert (found[1:] - found[:-1]).norm(dim=1).max() > 0.01  # the test moved at all


def check_invariants(case: Case, state: tuple) -> None:
    fields, method = tensors(state), case.algorithm
    if method.tracker:
        tracker, gradient = (fields[f].mean(dim=0) for f in method.tracker)
        assert torch.allclose(tracker, gradient, rtol=1e-11, atol=1e-11)
    if method.zero_sum:
        assert fields[method.zero_sum].sum(dim=0).abs().max() < 1e-11
    if case.mass:
        assert abs(fields[case.mass].sum().item() - len(state.x)) < 1e-12


@pytest.mark.parametrize("name", EXACT)
def test_an_exact_method_declares_what_a_lost_message_would_spoil(name: str):
    method = CASES[name].algorithm
    forgets = method.needs.average or method.needs.graph == "tree"  # by itself, at once or as it passes sums on
    forgets = forgets or not method.needs.columns  # whose weighted sums are nobody's mean
    assert method.tracker or method.zero_sum or forgets


@pytest.mark.parametrize("name", EXACT)
def test_exact_methods_reach_the_optimum_of_uneven_different_data(name: str):
    case, problem = CASES[name], quadratic(N)
    lr = case.share / problem.L
    rounds = round(4000 * case.patience)
    x = trajectory(case, problem.full, case.weights(graph(N)), torch.zeros(5, dtype=F64), lr, rounds)[-1].x
    assert (x - problem.optimum).norm() < 1e-9


@pytest.mark.parametrize("name", BIASED)
def test_biased_methods_miss_it_by_a_distance_that_halves_with_the_learning_rate(name: str):
    case, problem = CASES[name], quadratic(N)
    missed = []
    for lr in (0.004, 0.002):
        W = case.weights(graph(N))
        x = trajectory(case, problem.full, W, torch.zeros(5, dtype=F64), lr, round(20 / lr))[-1].x
        missed.append((x - problem.optimum).norm().item())
    assert missed[1] > 1e-4
    assert 1.9 < missed[0] / missed[1] < 2.1


def test_unweighted_mean_gradients_reach_another_point_than_the_empirical_risk():
    problem = quadratic(N)

    def unweighted(x: Tensor, k: int) -> Tensor:
        return torch.stack([problem.node_gradient(i, row) / problem.weight(i) for i, row in enumerate(x)])

    x = trajectory(CASES["dsgt"], unweighted, metropolis(graph(N)), torch.zeros(5, dtype=F64), 0.05, 4000)[-1].x
    assert (x - problem.optimum).norm() > 0.1


@each
def test_as_many_vectors_are_sent_as_declared(name: str):
    case, problem = CASES[name], quadratic(N)
    network = Dense(case.weights(graph(N)))
    states = iterate(case.algorithm, problem.full, network, torch.zeros(5, dtype=F64), 0.01)
    counts = [network.traffic.mixings for _ in itertools.islice(states, 402)]
    assert (counts[401] - counts[1]) / 400 == pytest.approx(case.algorithm.sends, abs=0.03)  # of a coin; else 0
    if case.algorithm.sends % 1 == 0:
        assert set(np.diff(counts[1:])) == {case.algorithm.sends}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.relabels])
def test_relabelling_the_nodes_permutes_the_trajectory(name: str):
    case, problem = CASES[name], quadratic(N)
    W, order = case.weights(graph(N)), torch.randperm(N, generator=torch.Generator().manual_seed(0))
    back = order.argsort()

    def gradient(x: Tensor, k: int) -> Tensor:
        return problem.stochastic(x[back], k)[order]

    plain = models(trajectory(case, problem.stochastic, W, starts(N, case), 0.02, 50))
    other = models(trajectory(case, gradient, relabelled(W, order), starts(N, case)[order], 0.02, 50))
    assert relative(other, plain[:, order]) < 1e-13


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.rotates])
def test_rotating_the_space_rotates_the_trajectory(name: str):
    case, problem = CASES[name], quadratic(N)
    Q = torch.linalg.qr(torch.randn(5, 5, dtype=F64, generator=torch.Generator().manual_seed(1))).Q

    def rotated(x: Tensor, k: int) -> Tensor:
        return problem.stochastic(x @ Q.T, k) @ Q

    W = case.weights(graph(N))
    plain = models(trajectory(case, problem.stochastic, W, starts(N, case), 0.02, 50))
    other = models(trajectory(case, rotated, W, starts(N, case) @ Q, 0.02, 50))
    assert relative(other, plain @ Q) < 1e-13


@each
def test_a_state_taken_out_and_put_back_goes_on_bit_for_bit(name: str):
    case, problem = CASES[name], quadratic(N)
    network = Dense(case.weights(graph(N)))
    states = trajectory(case, problem.stochastic, network, starts(N, case), 0.02, 60)
    blank = case.algorithm.init(torch.zeros(N, 5, dtype=F64), network.at(0))
    state = with_tensors(blank, {field: v.clone() for field, v in tensors(states[30]).items()})
    for k in range(30, 60):
        state = case.algorithm.update(state, problem.stochastic(state.x, k), network.at(k), 0.02)
    assert torch.equal(state.x, states[60].x)


@each
def test_update_writes_to_none_of_its_arguments(name: str):
    case, problem = CASES[name], quadratic(N)
    network = Dense(case.weights(graph(N)))
    state = trajectory(case, problem.stochastic, network, starts(N, case), 0.02, 3)[-1]
    g = problem.stochastic(state.x, 3)
    copies = {field: v.clone() for field, v in tensors(state).items()} | {"gradient": g.clone()}
    case.algorithm.update(state, g, network.at(3), 0.02)
    assert all(torch.equal(v, copies[field]) for field, v in (tensors(state) | {"gradient": g}).items())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.drifts])
def test_float32_does_not_drift_once_the_nodes_agree(name: str):
    """ALGORITHMS, section 8: the usual forms of D², Exact Diffusion and EXTRA are off by 3e-3 after 10,000 rounds."""
    case = CASES[name]
    if not case.algorithm.exact:
        pytest.skip("a method that stops beside the optimum has no round-off floor to look at")
    a = torch.randn(N, 5, generator=torch.Generator().manual_seed(0)) + 10
    network, lr = Dense(case.weights(graph(N))), min(0.1, case.share)
    state = next(
        itertools.islice(iterate(case.algorithm, lambda x, k: x - a, network, torch.zeros(5), lr), 10_000, None)
    )
    assert (state.x - a.double().mean(dim=0)).abs().max() < 3e-5  # at 10, lr times a smaller gradient rounds to nothing


@given(n=st.integers(2, 9), seed=st.integers(0, 10_000), name=st.sampled_from(sorted(CASES)))
@settings(max_examples=60, deadline=None)
def test_on_any_connected_graph_the_mean_moves_as_it_should(n: int, seed: int, name: str):
    case, problem, network = CASES[name], quadratic(n, seed=seed), graph(n, seed)
    states = trajectory(case, problem.stochastic, case.weights(network), starts(n, case), 0.01, 15)
    for state in states[1:]:
        check_invariants(case, state)
    found, expected = mean_path(case, problem, states, lambda k: 0.01)
    assert not case.follows or torch.allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_d2_with_the_lazy_weights_is_exact_diffusion():
    problem, g = quadratic(N), graph(N)
    d2 = models(trajectory(CASES["d2"], problem.stochastic, lazy(g), starts(N, CASES["d2"]), 0.02, 100))
    ed = models(
        trajectory(
            CASES["exact-diffusion"], problem.stochastic, metropolis(g), starts(N, CASES["exact-diffusion"]), 0.02, 100
        )
    )
    assert relative(d2, ed) < 1e-13


def test_sgp_on_a_balanced_network_is_adapt_then_combine():
    problem, W = quadratic(N), metropolis(graph(N))
    sgp = models(trajectory(CASES["sgp"], problem.stochastic, W, starts(N, CASES["sgp"]), 0.02, 100))
    atc = models(trajectory(CASES["atc-dpsgd"], problem.stochastic, W, starts(N, CASES["atc-dpsgd"]), 0.02, 100))
    assert relative(sgp, atc) < 1e-13


@pytest.mark.parametrize("method", [dsgt.DecentLaM(0), dsgt.MomentumDSGD(0), dsgt.QGDSGDm(0), dsgt.QGDSGDm(0, 0.5)])
def test_without_momentum_a_momentum_method_is_adapt_then_combine(method: Algorithm):
    problem, W = quadratic(N), metropolis(graph(N))
    found = models(
        trajectory(
            replace(CASES["atc-dpsgd"], algorithm=method),
            problem.stochastic,
            W,
            starts(N, CASES["atc-dpsgd"]),
            0.02,
            100,
        )
    )
    atc = models(trajectory(CASES["atc-dpsgd"], problem.stochastic, W, starts(N, CASES["atc-dpsgd"]), 0.02, 100))
    assert relative(found, atc) < 1e-13


@pytest.mark.parametrize("beta", [0.3, 0.95])
@pytest.mark.parametrize("name", ["decentlam", "momentum-dsgd", "qg-dsgdm"])
def test_momentum_is_the_published_recursion_with_every_parameter(name: str, beta: float):
    problem, W = quadratic(N), metropolis(graph(N))
    parameters = {"beta": beta} | ({"mu": 0.7} if name == "qg-dsgdm" else {})
    case = replace(CASES[name], algorithm=dsgt.ALGORITHMS[name](**parameters))

    def G(X: np.ndarray, k: int) -> np.ndarray:
        return problem.stochastic(torch.from_numpy(X), k).numpy()

    expected = REFERENCE[name](G, lambda k: W, starts(N, case).numpy(), lambda k: 0.01, 60, **parameters)
    found = models(trajectory(case, problem.stochastic, W, starts(N, case), 0.01, 60))
    assert relative(found, torch.from_numpy(np.stack(expected))) < 1e-13


def test_momentum_of_what_the_network_did_stops_where_d_psgd_stops_and_mixed_momentum_farther_away():
    problem, W, lr = quadratic(N), metropolis(graph(N)), 1e-2

    def missed(name: str) -> float:
        x = trajectory(CASES[name], problem.full, W, torch.zeros(5, dtype=F64), lr, 6000)[-1].x
        return (x - problem.optimum).norm().item()

    plain = missed("atc-dpsgd")
    assert missed("decentlam") == pytest.approx(plain, rel=1e-9)
    assert missed("qg-dsgdm") == pytest.approx(plain, rel=1e-9)
    assert 1.5 * plain < missed("momentum-dsgd") < 10 * plain  # 1 / (1 - beta), were the momentum not mixed


def test_dsgt_is_exact_on_one_peer_exponential_graphs():
    hop = [np.roll(np.eye(N), 2**t, axis=1) for t in range(3)]
    network, problem = Cycle([(np.eye(N) + P) / 2 for P in hop]), quadratic(N)
    x = trajectory(CASES["dsgt"], problem.full, network, torch.zeros(5, dtype=F64), 0.1 / problem.L, 6000)[-1].x
    assert (x - problem.optimum).norm() < 1e-9


def test_settle_leaves_nothing_in_flight():
    problem = quadratic(N)
    state = trajectory(CASES["gnsd"], problem.full, metropolis(graph(N)), starts(N, CASES["gnsd"]), 0.02, 2)[-1]
    assert all(isinstance(f, Done) for f in settle(state) if isinstance(f, Pending))


def test_k33_metropolis_breaks_d2_and_is_refused():
    W = metropolis(nx.complete_bipartite_graph(3, 3))  # lambda_n = -1/2
    problem = quadratic(6)
    with pytest.raises(ValueError, match=r"D2 needs the smallest eigenvalue of W above -0\.3333, but it is -0\.5"):
        iterate(dsgt.D2(), problem.full, W, torch.zeros(5, dtype=F64), 0.01)
