"""Bad input gets an error that says what was given, what was expected and what to do, before any work starts."""

from __future__ import annotations

import itertools
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from typer.testing import CliRunner

import dsgt
from dsgt import topologies
from dsgt.cli import app
from dsgt.networks import Cycle
from dsgt.topologies.weights import metropolis
from support.cases import F64, graph, push, quadratic

X0 = torch.zeros(5, dtype=F64)
RING = metropolis(nx.cycle_graph(4))


FULL = quadratic(4).full


def start(algorithm=None, W=RING, x0=X0, lr=0.1, grad=FULL):
    return dsgt.iterate(algorithm or dsgt.DSGT(), grad, W, x0, lr)


SPLIT = np.kron(np.eye(2), np.full((2, 2), 0.5))
SWAP = np.array([[0.0, 1.0], [1.0, 0.0]])
DIRECTED = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.5, 0.5], [0.5, 0.0, 0.0, 0.5]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"W": 2 * RING}, r"DSGT needs the rows of W to sum to 1, but row 0 sums to 2; use topologies\.metropolis"),
        ({"W": push(graph(4))}, "DSGT needs the rows of W to sum to 1"),
        (
            {"W": push(graph(4)).T, "algorithm": dsgt.SGP()},
            r"SGP needs the columns of W .* use topologies\.push_weights",
        ),
        ({"W": DIRECTED, "algorithm": dsgt.EXTRA()}, "EXTRA needs a symmetric W, but .* differ by up to 0.5"),
        ({"W": SPLIT}, "DSGT needs a connected network, but no messages get both ways between nodes 0 and 2"),
        ({"W": np.eye(4)}, "needs a connected network"),
        ({"W": SWAP, "grad": quadratic(2).full}, r"needs rho\(W\) < 1, but rho is 1: .* \(I \+ W\)/2"),
        ({"W": np.array([[2.0, -1.0], [-1.0, 2.0]])}, r"needs rho\(W\) < 1, but rho is 3"),
        ({"W": RING, "algorithm": dsgt.SGD()}, r"SGD needs W = 1/n everywhere; use topologies\.averaging"),
        ({"W": Cycle([RING, RING]), "algorithm": dsgt.D2()}, "D2 needs a network that does not change"),
        ({"W": np.zeros((2, 3))}, r"W has shape \(2, 3\), but a weight matrix is square"),
        ({"W": np.full((4, 4), np.nan)}, "not a finite number in row 0"),
        ({"x0": torch.zeros(3, 5, dtype=F64)}, r"x0 has shape \(3, 5\), but the network has 4 nodes"),
        ({"x0": torch.zeros((), dtype=F64)}, r"x0 has shape \(\)"),
        ({"x0": torch.zeros(5, dtype=torch.int64)}, "x0 has dtype torch.int64"),
        ({"lr": 0.0}, "lr is 0.0 in round 0; a learning rate is a finite number above 0"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"lr": lambda k: float("inf")}, "lr is inf in round 0"),
    ],
)
def test_iterate_refuses_before_any_work(arguments: dict, message: str):
    with pytest.raises((ValueError, TypeError), match=message):
        start(**arguments)


def test_d2_is_told_how_to_lift_w():
    W = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    with pytest.raises(
        ValueError, match=r"smallest eigenvalue of W above -0\.3333, but it is -0\.5; use topologies\.lift"
    ):
        start(dsgt.D2(), W, grad=quadratic(3).full)


def test_a_gradient_with_nan_names_the_node_and_the_round():
    problem = quadratic(4)

    def grad(x, k):
        g = problem.full(x, k)
        if k == 3:
            g[2, 1] = float("nan")
        return g

    states = start(grad=grad)
    with pytest.raises(dsgt.DivergedError, match="the gradient of node 2 in round 3 is not finite") as caught:
        list(itertools.islice(states, 10))
    assert (caught.value.node, caught.value.k) == (2, 3)


def test_a_gradient_too_large_to_sum_but_finite_is_no_error():
    states = start(x0=torch.zeros(5), grad=lambda x, k: torch.full_like(x, 3e38), lr=1e-39)
    next(states), next(states)


def test_a_gradient_of_the_wrong_shape_is_named():
    states = start(grad=lambda x, k: x[:, :2])
    next(states)
    with pytest.raises(ValueError, match=r"the gradient has shape \(4, 2\), but the models have shape \(4, 5\)"):
        next(states)


def test_a_learning_rate_that_turns_bad_stops_the_run_in_its_round():
    states = start(lr=lambda k: 0.1 - 0.05 * k)
    next(states), next(states), next(states)
    with pytest.raises(ValueError, match="in round 2"):
        next(states)


def test_mpi_without_mpi4py_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mpi4py", None)
    with pytest.raises(ImportError, match=r"pip install 'dsgt\[mpi\]'"):
        dsgt.networks.MPIPeers(np.eye(2))


def test_large_sparse_networks_are_checked_without_a_dense_matrix():
    n = 20_000
    ring = scipy.sparse.diags_array([[1 / 3], [1 / 3], [1 / 3]], offsets=[-1, 0, 1], shape=(n, n), dtype=float).tolil()
    ring[0, n - 1] = ring[n - 1, 0] = 1 / 3
    start(W=ring.tocsr(), x0=torch.zeros(1), grad=lambda x, k: x)
    ring[0, n - 1] = 0
    with pytest.raises(ValueError, match=r"row 0 sums to 0\.666667"):
        start(W=ring.tocsr(), x0=torch.zeros(1), grad=lambda x, k: x)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("nodes", "nodes is 1000000000, but at most 50000 are possible: every node needs a sample"),
        ("seeds", "seeds is 1000000000, but at most 10000 are possible: each is a run of every method"),
        ("batch", "batch is 1000000000, but at most 10000000 are possible: the samples of a round are drawn at once"),
    ],
)
@pytest.mark.parametrize("command", [["compare"], ["train", "dsgt"]], ids=lambda words: words[0])
def test_absurd_settings_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], setting: str, words: str
):
    monkeypatch.setattr(topologies, "named_network", lambda *_: pytest.fail("work was begun"))
    (tmp_path / "settings.toml").write_text(f"{setting} = 1_000_000_000\n")
    arguments = [*command, "--config", str(tmp_path / "settings.toml"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


def test_a_seed_below_0_is_refused(tmp_path: Path):
    done = CliRunner().invoke(app, ["train", "dsgt", "--seed", "-1", "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "error: seed is -1; seeds are whole numbers from 0 on" in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()
