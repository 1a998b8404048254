"""The fastest weights: known optima, the certificate, and the semidefinite program through cvxpy."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsgt import topologies
from dsgt.topologies.fastest import balanced, schur
from dsgt.topologies.fastest.certificate import lower_bound
from dsgt.topologies.fastest.problem import Problem
from dsgt.topologies.matrix import to_dense

KNOWN = {
    "path-3": (topologies.path(3), 0.5),
    "star-5": (topologies.star(5), 2 / 3),
    "ring-6": (topologies.ring(6), 0.6),
    "K4": (topologies.complete(4), 0.0),
    "one node": (topologies.path(1), 0.0),
    "two nodes": (topologies.path(2), 0.0),
}


@pytest.mark.parametrize("name", KNOWN)
def test_fdla_finds_the_known_optima(name: str) -> None:
    graph, rho = KNOWN[name]
    found = topologies.fdla(graph)
    assert found.rho == pytest.approx(rho, abs=1e-6)
    assert found.gap <= 1e-6


@pytest.mark.parametrize(
    "graph",
    [
        topologies.ring(7),
        topologies.hypercube(8),
        topologies.complete_bipartite(7, left=3),
        topologies.torus(16),
        topologies.star(9),
        nx.petersen_graph(),
    ],
)
def test_on_an_edge_transitive_graph_fdla_is_the_best_constant(graph: nx.Graph) -> None:
    constant = topologies.rho(topologies.best_constant(graph))
    assert topologies.fdla(graph).rho == pytest.approx(constant, abs=1e-6)


def sdp(graph: nx.Graph, *, nonnegative: bool = False) -> float:
    """The same problem in the words of cvxpy."""
    n, edges = len(graph), list(graph.edges)
    w = cp.Variable(len(edges))
    A = nx.incidence_matrix(graph, nodelist=range(n), edgelist=edges, oriented=True).toarray()
    outer = np.stack([np.outer(a, a).ravel() for a in A.T], axis=1)
    M = np.eye(n) - 1 / n - cp.reshape(outer @ w, (n, n), order="C")
    s = cp.Variable()
    limits = [s * np.eye(n) - M >> 0, s * np.eye(n) + M >> 0]
    if nonnegative:
        limits += [w >= 0, np.abs(A) @ w <= 1]
    cp.Problem(cp.Minimize(s), limits).solve(solver="SCS", eps=1e-7, max_iters=50_000)
    return float(s.value)


def random_graphs() -> list[nx.Graph]:
    """Fifty graphs of five kinds with 4 to 60 nodes; those that cvxpy needs seconds for are few."""
    found = []
    for k in range(10):
        n = 4 + 2 * k
        found.append(topologies.random_graph(n, seed=k))
        found.append(topologies.erdos_renyi(n + 1, p=min(1.0, 5 / n), seed=k))
        found.append(topologies.random_regular(n + 2, degree=3, seed=k))
        found.append(topologies.random_geometric(8 + k, radius=0.6, seed=k))
    for k, n in enumerate((12, 15, 20, 24, 28, 32, 36, 40, 50, 60)):
        found.append(topologies.erdos_renyi(n, p=0.35, seed=k))
    return found


@pytest.mark.parametrize("k", range(50))
def test_fdla_agrees_with_the_semidefinite_program(k: int) -> None:
    graph = random_graphs()[k]
    found = topologies.fdla(graph)
    assert found.gap <= 1e-6
    # SCS stops at 1e-7 of its own residuals, which is less accurate in the objective.
    assert found.rho == pytest.approx(sdp(graph), abs=1e-5)


@pytest.mark.parametrize("k", range(0, 32, 4))
def test_fmmc_agrees_with_the_semidefinite_program(k: int) -> None:
    graph = random_graphs()[k]
    found = topologies.fmmc(graph)
    assert found.gap <= 1e-6
    assert to_dense(found.W).min() >= 0
    assert found.rho == pytest.approx(sdp(graph, nonnegative=True), abs=1e-5)
    assert found.rho >= topologies.fdla(graph).lower_bound


graphs = st.builds(
    lambda n, p, seed: topologies.erdos_renyi(n, p=p, seed=seed),
    st.integers(2, 14),
    st.floats(0.6, 1),
    st.integers(0, 10_000),
)


@settings(max_examples=25, deadline=None)
@given(graphs, st.booleans())
def test_the_weights_are_symmetric_balanced_on_the_graph_and_certified(graph: nx.Graph, nonnegative: bool) -> None:
    found = (topologies.fmmc if nonnegative else topologies.fdla)(graph)
    W = to_dense(found.W)
    assert (W == W.T).all()
    assert np.abs(W.sum(axis=1) - 1).max() < 1e-14
    assert all(graph.has_edge(i, j) or W[i, j] == 0 for i in graph for j in graph if i != j)
    values = np.linalg.eigvalsh(W - 1 / len(graph))
    assert max(-values[0], values[-1]) == pytest.approx(found.rho, abs=1e-12)
    assert found.lower_bound <= found.rho + 1e-12
    assert found.gap <= 1e-6
    if not nonnegative and len(graph) > 2 and found.rho > 1e-6:
        assert values[-1] == pytest.approx(-values[0], abs=1e-9)


@settings(max_examples=15, deadline=None)
@example(topologies.erdos_renyi(7, p=0.9375, seed=3), Random(0))  # its optimum is not unique
@given(graphs, st.randoms(use_true_random=False))
def test_new_names_for_the_nodes_only_rename_the_weights(graph: nx.Graph, random: Random) -> None:
    n = len(graph)
    names = list(range(n))
    random.shuffle(names)
    renamed = nx.relabel_nodes(graph, dict(enumerate(names)))
    W, V = (to_dense(topologies.fdla(g, tol=1e-8).W) for g in (graph, renamed))
    # The optimum may be flat: weights are as near as the square root of the gap allows.
    assert np.abs(V[np.ix_(names, names)] - W).max() < 1e-3


@settings(max_examples=40, deadline=None)
@given(graphs, st.integers(0, 10_000), st.booleans())
def test_no_multiplier_can_prove_a_bound_above_the_optimum(graph: nx.Graph, seed: int, nonnegative: bool) -> None:
    # Whatever Y the solver hands over, the repaired bound is true: also for noise.
    problem = Problem.of(graph, nonnegative=nonnegative)
    draw = torch.Generator().manual_seed(seed)
    Y = torch.randn(problem.n, problem.n, generator=draw, dtype=torch.float64)
    y = torch.rand(problem.n, generator=draw, dtype=torch.float64)
    best = (topologies.fmmc if nonnegative else topologies.fdla)(graph)
    assert lower_bound(problem, Y, y) <= best.rho + 1e-12


@pytest.mark.parametrize("nonnegative", [False, True])
def test_conjugate_gradients_solve_the_factored_system(nonnegative: bool) -> None:
    problem = Problem.of(topologies.random_graph(12, seed=1), nonnegative=nonnegative)
    draw = torch.Generator().manual_seed(0)
    roots = torch.randn(4, 12, 12, generator=draw, dtype=torch.float64)
    X, inverse = (roots @ roots.transpose(1, 2) + torch.eye(12, dtype=torch.float64)).split(2)
    slacks = problem.edges + problem.n if nonnegative else 0
    ratio = torch.rand(slacks, generator=draw, dtype=torch.float64)
    system = schur.System(problem, X, inverse, ratio)
    lower = torch.tril(schur.matrix(system))
    H = lower + torch.tril(lower, -1).T
    v = torch.randn(problem.edges, generator=draw, dtype=torch.float64)
    # The products are in float32.
    assert torch.allclose(schur.Gradients(system).product(v), H @ v, rtol=1e-4, atol=1e-3)
    assert torch.allclose(schur.Gradients(system).diagonal, H.diagonal(), rtol=1e-10)
    assert torch.allclose(schur.Factor(system)(H @ v), v, rtol=1e-6)


@pytest.mark.parametrize("fastest", [topologies.fdla, topologies.fmmc])
def test_a_large_graph_is_solved_by_conjugate_gradients_to_one_percent(
    fastest: Callable[..., topologies.Fastest], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = nx.gnm_random_graph(60, 600, seed=1)
    exact = fastest(graph).rho
    monkeypatch.setattr(schur, "FACTOR_MOST", 100)  # so that this graph counts as large
    monkeypatch.delattr(schur.Factor, "__init__")
    found = fastest(graph, tol=4e-3)
    assert found.lower_bound <= exact <= found.rho + 1e-12
    assert found.gap <= 4e-3


def test_conjugate_gradients_that_take_too_long_hand_over_to_the_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = topologies.random_graph(20, seed=1)
    exact = topologies.fdla(graph).rho
    monkeypatch.setattr("dsgt.topologies.fastest.interior.affordable", lambda _: 3)
    monkeypatch.setattr(schur, "affordable", lambda _: 3)
    assert topologies.fdla(graph).rho == pytest.approx(exact, abs=1e-6)


def test_the_number_of_threads_is_left_as_it_was() -> None:
    before = torch.get_num_threads()
    topologies.fdla(topologies.ring(5))
    assert torch.get_num_threads() == before


def test_a_gap_that_rounding_forbids_is_reported() -> None:
    with pytest.warns(RuntimeWarning, match="above the tol"):
        found = topologies.fdla(topologies.random_graph(10, seed=1), tol=1e-17)
    assert 0 < found.gap < 1e-9  # which asking for 1e-9 reaches without a warning, whatever the order of sums


def test_a_tolerance_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="tol is 0"):
        topologies.fdla(topologies.ring(4), tol=0)


@pytest.mark.parametrize("n", [4, 7])
def test_a_markov_chain_is_scaled_no_further_than_its_nodes_have_weight_to_give(n: int) -> None:
    """A star with weights 1/n: twice as fast would be 2n/(n + 1) times as much, but the centre has n/(n - 1) only."""
    graph = nx.star_graph(n - 1)
    chain, free = (Problem.of(graph, nonnegative=nonnegative) for nonnegative in (True, False))
    w = torch.full((n - 1,), 1 / n, dtype=torch.float64)
    capped, rho = balanced(chain, w)
    assert capped.numpy() == pytest.approx(np.full(n - 1, 1 / (n - 1)))
    assert float(chain.at_nodes(capped).max()) <= 1
    assert rho == pytest.approx(1 - 1 / (n - 1))
    assert balanced(free, w)[0].numpy() == pytest.approx(np.full(n - 1, 2 / (n + 1)))
