"""What a mixing says of its round, and letters to single neighbours: the same in the simulator and on real nodes."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from dsgt.core import Mix, Weights
from dsgt.networks import Clocked, Dense, in_threads
from dsgt.networks.peers import Peers
from dsgt.topologies import metropolis, pull_weights, push_weights
from dsgt.topologies.changing import Cycle, Fixed

N, M = 5, 3
F64 = torch.float64


class Two(Weights):
    """One matrix for models, another for trackers."""

    def __init__(self, pull: Weights, push: Weights) -> None:
        self._pull, self._push = pull, push

    @property
    def matrices(self):
        return self._pull.matrices

    def at(self, k: int):
        return self._pull.at(k)

    @property
    def push(self) -> Weights:
        return self._push


def directed() -> nx.DiGraph:
    graph = nx.DiGraph(nx.cycle_graph(N, create_using=nx.DiGraph))
    graph.add_edge(0, 3)
    return graph


LONELY = np.eye(N)
LONELY[0, 0] = LONELY[0, 2] = 0.5
"""Node 0 hears node 2, and nobody else hears or tells anybody."""
WEIGHTS = {
    "ring": Fixed(metropolis(nx.cycle_graph(N))),
    "star": Fixed(metropolis(nx.star_graph(N - 1))),
    "directed": Fixed(pull_weights(directed())),
    "averaging": Fixed(np.full((N, N), 1 / N)),
    "hardly anybody": Fixed(LONELY),
    "changing": Cycle([metropolis(nx.cycle_graph(N)), LONELY, np.eye(N)]),
    "two": Two(Fixed(pull_weights(directed())), Fixed(push_weights(directed()))),
}


def said(mix: Mix, i: int, v: torch.Tensor) -> list[object]:
    """Everything that node i is told in this round, without the filling of the simulator."""
    heard, told = mix.hears, mix.tells
    mine = (lambda t: t[i]) if heard.ndim == 2 else (lambda t: t)
    x = v if heard.ndim == 2 else v[i]
    same = mine(mix.exchange(x[..., None, :]))
    letters = x[..., None, :] + 100 * told[..., None]
    each = mine(mix.exchange(letters))
    true = mine(heard) >= 0
    return [
        mine(heard)[true].tolist(),
        mine(told)[mine(told) >= 0].tolist(),
        mine(mix.weights)[true].tolist(),
        same[true].tolist(),
        each[true].tolist(),
        mine(mix.rows).tolist(),
        mine(mix.own).tolist(),
        mine(mix.push(x)).tolist(),
        (mix.k, mix.nodes),
    ]


@pytest.mark.parametrize("name", WEIGHTS)
def test_letters_and_words_are_the_same_in_the_simulator_under_a_clock_and_on_real_nodes(name: str) -> None:
    weights = WEIGHTS[name]
    v = torch.arange(N * M, dtype=F64).reshape(N, M)

    def act(network: Peers) -> list[object]:
        return [said(network.at(k), network.node, v) for k in range(4)]

    real = in_threads(weights, act, timeout=60)
    for make in (Dense, Clocked):
        for i in range(N):
            assert [_rounded(said(make(weights).at(k), i, v)) for k in range(4)] == [_rounded(s) for s in real[i]]


def _rounded(found: list[object]) -> list[object]:
    *words, mixed, numbers = found
    return [*words, np.round(mixed, 10).tolist(), numbers]  # real nodes add up in another order


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_letter_reaches_the_one_whom_it_is_meant_for(name: str) -> None:
    mix = Dense(WEIGHTS[name]).at(0)
    W = WEIGHTS[name].at(0)
    letters = (10.0 * mix.rows + mix.tells)[..., None]  # from i to j: 10 i + j
    heard = mix.exchange(letters)[..., 0]
    for i in range(N):
        expected = [10.0 * j + i for j in np.flatnonzero(W[i]) if j != i]
        assert heard[i][mix.hears[i] >= 0].tolist() == expected
        assert not heard[i][mix.hears[i] < 0].any()
        assert mix.weights[i, :, 0][mix.hears[i] >= 0].tolist() == [W[i, j] for j in np.flatnonzero(W[i]) if j != i]


def test_letters_are_counted_as_they_travel() -> None:
    v = torch.zeros(N, M, dtype=F64)

    def act(network: Peers) -> int:
        network.at(0).exchange(v[network.node][None])
        return network.traffic.bytes

    for weights in WEIGHTS.values():
        dense = Dense(weights)
        dense.at(0).exchange(v[:, None])
        assert dense.traffic.mixings == 1
        assert dense.traffic.bytes == sum(in_threads(weights, act, timeout=60))


def test_letters_take_virtual_time_link_by_link() -> None:
    """Also where W averages everybody, which a mixing would do by an all-reduce."""
    for weights, degree in ((WEIGHTS["ring"], 2), (WEIGHTS["averaging"], N - 1)):
        clocked = Clocked(weights, bandwidth=8.0 * M)
        clocked.at(0).exchange(torch.zeros(N, 1, M, dtype=F64))
        assert clocked.seconds == degree


def test_letters_for_the_wrong_number_of_neighbours_are_refused() -> None:
    def act(network: Peers) -> None:
        with pytest.raises(ValueError, match=r"expected \(1, m\), or \(2, m\)"):
            network.at(0).exchange(torch.zeros(3, M))

    in_threads(WEIGHTS["ring"], act, timeout=60)


def test_other_weights_can_be_put_on_the_same_nodes() -> None:
    v = torch.arange(N * M, dtype=F64).reshape(N, M)
    W = WEIGHTS["ring"]

    def act(network: Peers) -> torch.Tensor:
        other = network.over(W)
        assert other.nodes == network.nodes
        assert other.node == network.node
        mixed = other.at(7)(v[network.node])
        assert network.traffic.mixings == other.traffic.mixings == 1
        return mixed

    found = torch.stack(in_threads(WEIGHTS["star"], act, timeout=60))
    assert torch.allclose(found, Dense(W)(v), rtol=1e-14)
    with pytest.raises(ValueError, match="joins 2 nodes, but the network has 5"):
        Dense(W).over(Fixed(np.eye(2)))


def test_a_mixing_refuses_a_word_that_it_does_not_know() -> None:
    class Plain(Mix):
        def start(self, v):
            raise NotImplementedError

        start_flow = start

    for word in ("k", "nodes", "rows", "push", "hears", "tells", "weights", "own"):
        with pytest.raises(TypeError, match="Plain does not know"):
            getattr(Plain(), word)
    with pytest.raises(TypeError, match="Plain does not know letters"):
        Plain().exchange(torch.zeros(1, 1))
