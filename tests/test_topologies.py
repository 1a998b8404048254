"""Graphs, weights, spectrum, design, files and pictures."""

from __future__ import annotations

import math
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from dsgt import topologies
from dsgt.algorithms import ALGORITHMS, COMPOSITIONS
from dsgt.text import nearest
from dsgt.theory import usable
from dsgt.topologies import GRAPHS, WEIGHTS, eigen
from dsgt.topologies.drawing import averaging_curve
from dsgt.topologies.matrix import to_dense

SYMMETRIC = [name for name in WEIGHTS if name not in ("push", "pull")]


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_is_connected_without_self_loops_on_the_nodes_from_0(name: str) -> None:
    graph = GRAPHS[name](16)
    assert sorted(graph.nodes) == list(range(16))
    assert nx.number_of_selfloops(graph) == 0
    assert nx.is_strongly_connected(graph) if graph.is_directed() else nx.is_connected(graph)


@pytest.mark.parametrize("name", sorted(set(GRAPHS) - {"complete-bipartite", "random-regular", "small-world"}))
def test_every_graph_exists_for_one_node(name: str) -> None:
    assert GRAPHS[name](1).number_of_edges() == 0


@pytest.mark.parametrize("name", ["erdos-renyi", "random-regular", "random-geometric", "small-world", "random"])
def test_a_random_graph_depends_on_its_seed_only(name: str) -> None:
    first, second, other = (GRAPHS[name](20, seed=s) for s in (3, 3, 4))
    assert set(first.edges) == set(second.edges) != set(other.edges)


def test_the_graph_of_the_paper_has_2_log2_n_neighbours_on_average() -> None:
    assert topologies.random_graph(24, seed=3).number_of_edges() == round(24 * math.log2(24))


@pytest.mark.parametrize("n", [0, -3])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_network_without_nodes_is_refused(name: str, n: int) -> None:
    with pytest.raises(ValueError, match=f"n is {n}"):
        GRAPHS[name](n)


def test_an_impossible_degree_is_refused() -> None:
    with pytest.raises(ValueError, match="degree = 5 for n = 5"):
        topologies.random_regular(5, degree=5)
    with pytest.raises(ValueError, match="even"):
        topologies.random_regular(5, degree=3)
    with pytest.raises(ValueError, match="try 8 or 16"):
        topologies.hypercube(12)
    with pytest.raises(ValueError, match="larger p"):
        topologies.erdos_renyi(50, p=0.001)


@pytest.mark.parametrize("rule", SYMMETRIC)
@pytest.mark.parametrize("graph", [topologies.random_graph(12, seed=1), topologies.star(5), topologies.path(1)])
def test_every_symmetric_rule_is_symmetric_and_sums_to_one_on_the_graph(rule: str, graph: nx.Graph) -> None:
    W = to_dense(WEIGHTS[rule](graph))
    assert (W == W.T).all()
    assert np.abs(W.sum(axis=1) - 1).max() < 1e-14
    assert all(graph.has_edge(i, j) or W[i, j] == 0 for i in graph for j in graph if i != j)


def test_push_weights_are_column_and_pull_weights_row_stochastic_along_the_arrows() -> None:
    graph = topologies.directed_random(9, seed=2)
    push, pull = to_dense(topologies.push_weights(graph)), to_dense(topologies.pull_weights(graph))
    assert np.abs(push.sum(axis=0) - 1).max() < 1e-14
    assert np.abs(pull.sum(axis=1) - 1).max() < 1e-14
    for W in (push, pull):
        assert {(j, i) for i, j in zip(*W.nonzero(), strict=True) if i != j} == set(graph.edges)


def test_a_node_alone_finds_its_row_of_the_metropolis_weights() -> None:
    graph = topologies.random_graph(10, seed=1)
    W = to_dense(topologies.metropolis(graph))
    for i in graph:
        neighbours = list(graph[i])
        own, row = topologies.metropolis_row(graph.degree[i], [graph.degree[j] for j in neighbours])
        assert own == pytest.approx(W[i, i], abs=1e-15)
        assert row == [W[i, j] for j in neighbours]


def test_the_best_constant_is_better_than_its_neighbours() -> None:
    graph = topologies.random_graph(12, seed=1)
    L = nx.laplacian_matrix(graph, nodelist=range(12)).toarray()
    best = to_dense(topologies.best_constant(graph))[next(iter(graph.edges))]
    values = [topologies.rho(np.eye(12) - a * L) for a in (0.99 * best, best, 1.01 * best)]
    assert values[1] == min(values)


@pytest.mark.parametrize("n", [2, 8, 16])
def test_the_rounds_of_the_one_peer_exponential_graph_average_exactly_for_a_power_of_two(n: int) -> None:
    product = np.eye(n)
    for W in topologies.one_peer_exponential(n):
        product = to_dense(W) @ product
    assert np.abs(product - 1 / n).max() < 1e-15


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 12), st.floats(-0.9, 0.9))
def test_lift_puts_the_smallest_eigenvalue_just_above_the_floor(n: int, floor: float) -> None:
    W = topologies.best_constant(topologies.ring(n))
    lifted = topologies.lift(W, floor)
    assert topologies.smallest_eigenvalue(lifted) > floor
    if topologies.smallest_eigenvalue(W) <= floor:
        assert topologies.smallest_eigenvalue(lifted) == pytest.approx(floor, abs=1e-5)


def test_a_disconnected_graph_is_refused_with_two_nodes_named() -> None:
    graph = nx.Graph([(0, 1), (2, 3)])
    for rule in WEIGHTS.values():
        with pytest.raises(ValueError, match="node 0 and node 2"):
            rule(graph)


def test_self_loops_directed_graphs_and_strange_names_are_refused() -> None:
    with pytest.raises(ValueError, match="self loop at node 1"):
        topologies.metropolis(nx.Graph([(0, 1), (1, 1)]))
    with pytest.raises(ValueError, match="directed graph"):
        topologies.fdla(topologies.directed_ring(4))
    with pytest.raises(ValueError, match="node 'a'"):
        topologies.metropolis(nx.Graph([("a", "b")]))
    with pytest.raises(ValueError, match="node 0 never hears of node 1"):
        topologies.push_weights(nx.DiGraph([(0, 1)]))
    assert "did you mean 'ring'" in nearest("rng", GRAPHS, "graph")


def test_large_sparse_weights_are_never_dense() -> None:
    W = topologies.metropolis(topologies.ring(20_000))
    assert scipy.sparse.issparse(W)
    assert W.nnz == 60_000


@pytest.mark.parametrize(
    "graph", [topologies.ring(60), topologies.random_regular(60, degree=4, seed=1), topologies.grid(60)]
)
@pytest.mark.parametrize("rule", ["metropolis", "best-constant", "lazy-metropolis"])
def test_the_sparse_eigenvalues_are_the_dense_ones(graph: nx.Graph, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    W = WEIGHTS[rule](graph)
    dense = eigen.second_largest(W), eigen.smallest(W)
    monkeypatch.setattr(eigen, "DENSE_MOST", 10)
    sparse = scipy.sparse.csr_array(W)
    assert (eigen.second_largest(sparse), eigen.smallest(sparse)) == pytest.approx(dense, abs=1e-4)


def test_a_ring_of_100000_nodes_is_described_without_a_dense_matrix() -> None:
    d = topologies.describe(topologies.metropolis(topologies.ring(100_000)))
    assert d.gap == pytest.approx(2 / 3 * (1 - math.cos(2 * math.pi / 100_000)), rel=1e-3)
    assert d.lambda_n == pytest.approx(-1 / 3, abs=1e-6)
    assert d.messages == 200_000


def test_who_may_use_weights_is_told_with_why_not() -> None:
    W = topologies.fdla(topologies.ring(6)).W
    d, methods = topologies.describe(W), usable(W)
    assert d.rho == pytest.approx(0.6)
    assert (d.lambda_2, d.lambda_n) == (pytest.approx(0.6), pytest.approx(-0.6))
    assert d.rounds_to_halve == pytest.approx(math.log(0.5) / math.log(0.6))
    assert (d.messages, d.max_degree) == (12, 2)
    assert set(methods) == set(ALGORITHMS | COMPOSITIONS)
    assert methods["dsgt"] == methods["detag"] == ""
    assert "lift" in methods["d2"]
    directed = usable(topologies.push_weights(topologies.directed_ring(5)))
    assert directed["sgp"] == ""
    assert "needs a symmetric W" in directed["mg-dsgd"]
    with pytest.raises(AttributeError, match=r"theory\.usable"):
        d.methods  # noqa: B018 - where it used to be


def test_rho_of_directed_doubly_stochastic_weights_is_a_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    W = topologies.push_weights(topologies.directed_exponential(40))
    norm = np.linalg.norm(to_dense(W) - 1 / 40, 2)
    assert topologies.rho(W) == pytest.approx(norm, abs=1e-12)
    monkeypatch.setattr("dsgt.topologies.spectrum.DENSE_MOST", 10)
    assert topologies.rho(scipy.sparse.csr_array(W)) == pytest.approx(norm, abs=1e-6)


def test_a_designed_network_reaches_its_rho_with_fewer_edges_than_the_obvious_ones() -> None:
    found = topologies.design(16, rho=0.5, seed=1)
    assert topologies.rho(found.W) <= 0.5 + 1e-6
    assert all(found.edges < rival.edges for rival in found.rivals if rival.rho <= 0.5)


def test_a_designed_network_keeps_to_its_degree() -> None:
    found = topologies.design(15, degree=4)
    assert found.max_degree <= 4
    torus = next(rival for rival in found.rivals if rival.name == "torus")
    assert found.rho <= torus.rho + 1e-6


@pytest.mark.parametrize("wish", [{}, {"rho": 0.5, "degree": 3}, {"rho": 1.0}, {"degree": 8}, {"degree": 1}])
def test_an_impossible_wish_is_refused(wish: dict) -> None:
    with pytest.raises(ValueError, match="design was given"):
        topologies.design(8, **wish)


@pytest.mark.parametrize("ending", [".json", ".npz"])
@pytest.mark.parametrize("graph", [topologies.random_graph(9, seed=1), topologies.directed_random(9, seed=1)])
def test_a_network_comes_back_from_its_file(graph: nx.Graph, ending: str, tmp_path: Path) -> None:
    W = topologies.push_weights(graph)
    topologies.write_network(tmp_path / f"net{ending}", graph, W)
    back = topologies.read_network(tmp_path / f"net{ending}")
    assert nx.utils.graphs_equal(back.graph, graph)
    assert (to_dense(back.W) == to_dense(W)).all()


@pytest.mark.parametrize("ending", [".graphml", ".edges"])
def test_a_graph_comes_back_from_graphml_and_edge_lists(ending: str, tmp_path: Path) -> None:
    graph = topologies.random_graph(9, seed=1)
    topologies.write_network(tmp_path / f"net{ending}", graph)
    assert nx.utils.graphs_equal(topologies.read_network(tmp_path / f"net{ending}").graph, graph)


def test_a_graph_is_read_from_an_adjacency_matrix(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,1,0\n1,0,1\n0,1,0\n")
    assert set(topologies.read_network(tmp_path / "a.csv").graph.edges) == {(0, 1), (1, 2)}
    heard = topologies.from_adjacency([[0, 0], [1, 0]])
    assert list(heard.edges) == [(0, 1)]


def test_a_file_that_is_not_a_graph_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ValueError, match=r"a\.json is not a graph"):
        topologies.read_network(tmp_path / "a.json")
    (tmp_path / "a.graphml").write_text("hello")
    with pytest.raises(ValueError, match="not a graph"):
        topologies.read_network(tmp_path / "a.graphml")
    (tmp_path / "a.xyz").write_text("")
    with pytest.raises(ValueError, match=r"ends in '\.xyz'"):
        topologies.read_network(tmp_path / "a.xyz")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        topologies.read_network(tmp_path / "nothing.json")


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_picture_is_written(ending: str, tmp_path: Path) -> None:
    graph = topologies.star(5)
    figure = topologies.draw(graph, topologies.fdla(graph).W, tmp_path / f"a.{ending}", title="star")
    assert (tmp_path / f"a.{ending}").stat().st_size > 1000
    assert "rho = 0.6667" in figure.axes[0].get_title()


def test_negative_weights_are_named_in_the_picture() -> None:
    graph = topologies.random_graph(24, seed=3)
    legend = topologies.draw(graph, topologies.fdla(graph).W).axes[0].get_legend()
    assert legend is not None
    assert legend.get_texts()[0].get_text().startswith("negative weight (")


def test_several_networks_are_drawn_with_their_averaging_curves(tmp_path: Path) -> None:
    networks = {k: (GRAPHS[k](8), topologies.metropolis(GRAPHS[k](8))) for k in ("path", "ring", "grid")}
    figure = topologies.draw_side_by_side(networks, tmp_path / "a.png")
    assert len(figure.axes) == 4
    curve = averaging_curve(topologies.metropolis(topologies.ring(8)), 40)
    # In the long run a round shrinks the disagreement by rho.
    assert curve[-1] / curve[-2] == pytest.approx(topologies.rho(topologies.metropolis(topologies.ring(8))), rel=1e-6)


def test_a_picture_of_too_many_nodes_or_the_wrong_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="they must agree"):
        topologies.draw(topologies.ring(4), topologies.averaging(5))
    with pytest.raises(ValueError, match="cannot be told apart"):
        topologies.draw(topologies.ring(1000), topologies.metropolis(topologies.ring(1000)))
