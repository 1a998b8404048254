"""Several rounds of gossip as one mixing: its polynomial, its flows, what it costs, and the same on real nodes."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

import dsgt
from dsgt import topologies
from dsgt.core import Network
from dsgt.networks import Clocked, Dense, Repeated, accelerated, chebyshev, in_threads
from dsgt.networks.peers import Peers
from dsgt.topologies import Cycle, Pairs, metropolis, ring

F64 = torch.float64
N = 8
W = metropolis(ring(N))
V = torch.from_numpy(np.random.default_rng(0).normal(size=(N, 3)))


def scaman(W: np.ndarray, v: np.ndarray, rounds: int) -> np.ndarray:
    """x - P_K(L) x with Chebyshev's polynomial, as the paper writes it, L = I - W."""
    eigenvalues = np.sort(np.linalg.eigvalsh(np.eye(len(W)) - W))
    low, high = eigenvalues[1], eigenvalues[-1]
    c2, c3 = (1 + low / high) / (1 - low / high), 2 / ((1 + low / high) * high)
    step = np.eye(len(W)) - c3 * (np.eye(len(W)) - W)
    a, x = [1, c2], [v, c2 * step @ v]
    for _ in range(rounds - 1):
        a.append(2 * c2 * a[-1] - a[-2])
        x.append(2 * c2 * step @ x[-1] - x[-2])
    return x[rounds] / a[rounds]


def liu_morse(W: np.ndarray, v: np.ndarray, rounds: int) -> np.ndarray:
    root = np.sqrt(1 - np.linalg.norm(W - 1 / len(W), 2) ** 2)
    eta = (1 - root) / (1 + root)
    before, z = v, v
    for _ in range(rounds):
        before, z = z, (1 + eta) * W @ z - eta * before
    return z


WAYS = {
    "plain": (Repeated, lambda W, v, R: np.linalg.matrix_power(W, R) @ v),
    "accelerated": (accelerated, liu_morse),
    "chebyshev": (chebyshev, scaman),
}


@pytest.mark.parametrize("rounds", [1, 2, 3, 7])
@pytest.mark.parametrize("way", WAYS)
def test_it_mixes_by_the_published_recursion(way: str, rounds: int) -> None:
    make, published = WAYS[way]
    network = make(Dense(W), rounds)
    expected = torch.from_numpy(published(W, V.numpy(), rounds))
    mix = network.at(5)
    assert torch.allclose(mix(V), expected, atol=1e-13)
    assert torch.allclose(mix.start(V).wait(), expected, atol=1e-13)
    assert torch.allclose(mix.flow(V), expected - V, atol=1e-13)
    assert torch.allclose(torch.from_numpy(network.weights.at(5)) @ V, expected, atol=1e-13)
    assert mix.push is mix
    assert (mix.k, mix.nodes, mix.rows.flatten().tolist()) == (5, N, list(range(N)))


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("way", WAYS)
def test_real_nodes_mix_as_the_simulator_does_and_send_as_much(way: str, rounds: int) -> None:
    make, _ = WAYS[way]

    def act(network: Peers) -> tuple[torch.Tensor, int]:
        several = make(network, rounds)
        return several.at(0)(V[network.node]), several.traffic.bytes

    simulated = make(Dense(W), rounds)
    expected = simulated.at(0)(V)
    found = in_threads(W, act, timeout=60)
    assert torch.allclose(torch.stack([v for v, _ in found]), expected, atol=1e-13)
    assert sum(sent for _, sent in found) == simulated.traffic.bytes == rounds * 2 * N * 3 * 8


def test_one_round_of_plain_gossip_is_no_change_of_the_network() -> None:
    def last(network: Network) -> torch.Tensor:
        states = dsgt.iterate(dsgt.DSGT(), lambda x, k: x - V, network, V, 0.1)
        return next(islice(states, 40, None)).x

    plain, once = Dense(W), Repeated(Dense(W), 1)
    assert torch.allclose(last(plain), last(once), atol=1e-13)
    assert plain.traffic == once.traffic


def test_one_round_of_chebyshev_is_the_best_step_and_not_w() -> None:
    eigenvalues = np.sort(np.linalg.eigvalsh(np.eye(N) - W))
    best = np.eye(N) - 2 / (eigenvalues[1] + eigenvalues[-1]) * (np.eye(N) - W)
    assert np.allclose(chebyshev(Dense(W), 1).weights.at(0), best, atol=1e-13)
    assert not np.allclose(best, W, atol=1e-3)


def test_on_a_complete_graph_one_round_does_everything() -> None:
    for rounds in (None, 3):
        network = chebyshev(Dense(topologies.averaging(6)), rounds)
        v = V[:6]
        assert torch.allclose(network.at(0)(v), v.mean(dim=0, keepdim=True).expand_as(v), atol=1e-14)


def test_the_usual_degree_of_chebyshev_leaves_a_fraction_that_is_the_same_for_every_ring() -> None:
    left = [topologies.rho(chebyshev(Dense(metropolis(ring(n)))).weights.at(0)) for n in (8, 16, 64, 128)]
    assert max(left) < 0.7  # 2 c^K / (1 + c^2K) with c^K about 1/e^2 ... at most this, while rho goes to 1
    assert len(chebyshev(Dense(metropolis(ring(64)))).coefficients) > 15


def test_flows_of_equal_models_are_nothing_and_of_others_add_up_to_nothing() -> None:
    near = 1e4 + 1e-3 * V.float()
    for make, _ in WAYS.values():
        mix = make(Dense(W), 5).at(0)
        assert not mix.flow(torch.full((N, 3), 1e4)).any()
        assert mix.flow(near).sum(dim=0).abs().max() < 1e-6  # rounded at the size of the differences


def test_rounds_cost_virtual_time() -> None:
    clocked = Clocked(W, latency=1.0)
    Repeated(clocked, 5).at(0)(V)
    assert clocked.seconds == 5.0
    pending = Repeated(clocked, 3).at(1).start(V)
    assert clocked.seconds == 7.0
    pending.peek()
    assert clocked.seconds == 7.0
    pending.wait()
    assert clocked.seconds == 8.0


def test_a_changing_network_is_repeated_round_by_round() -> None:
    other = (np.eye(N) + W) / 2
    network = Repeated(Dense(Cycle([W, other])), 3)
    assert torch.allclose(network.at(1)(V), torch.from_numpy(np.linalg.matrix_power(other, 3)) @ V, atol=1e-13)
    assert len(network.matrices) == 2
    assert np.allclose(network.matrices[1], np.linalg.matrix_power(other, 3))


def test_what_really_mixes_is_what_a_method_asks_about() -> None:
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="no messages get both ways between nodes 0 and 1"):  # swapped and back
        dsgt.iterate(dsgt.DSGT(), lambda x, k: x, Repeated(Dense(swap), 2), V[:2], 0.1)
    with pytest.raises(ValueError, match="smallest eigenvalue"):
        dsgt.iterate(dsgt.D2(), lambda x, k: x, Dense(0.2 * np.eye(2) + 0.8 * swap), V[:2], 0.1)
    twice = Repeated(Dense(0.2 * np.eye(2) + 0.8 * swap), 2)  # -0.6 becomes 0.36
    dsgt.iterate(dsgt.D2(), lambda x, k: x, twice, V[:2], 0.1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Repeated(Dense(W), 0), "given 0 rounds; expected at least 1"),
        (lambda: accelerated(Dense(W), 0), "given 0 rounds; expected at least 1"),
        (lambda: chebyshev(Dense(W), 0), "given 0 rounds; expected at least 1"),
        (lambda: Repeated(Dense(Pairs(ring(N))), 2), "give weights that are not random"),
        (lambda: chebyshev(Dense(Cycle([W, W])), 2), "needs weights that do not change"),
        (lambda: accelerated(Dense(topologies.push_weights(topologies.directed_ring(4))), 2), "needs a symmetric W"),
    ],
)
def test_bad_gossip_is_refused_with_a_reason(make, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
