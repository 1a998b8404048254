"""The networks whose nodes all live in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch import Tensor

import dsgt
from dsgt.core import Done, Network, Weights, tensors
from dsgt.networks import Clocked, Cycle, Dense, stragglers
from dsgt.networks.sparse import SparseProduct, is_faster
from dsgt.run import iterate
from dsgt.threads import threads
from dsgt.topologies.changing import Fixed, Periodic
from dsgt.topologies.weights import averaging, metropolis
from support.cases import CASES, F64, both, graph, quadratic
from support.events import Events
from support.recorder import Recorder


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [6, 400])
def test_dense_multiplies_by_w_whatever_holds_it(dtype: torch.dtype, n: int):
    W = metropolis(nx.cycle_graph(n))
    v = torch.randn(n, 7, dtype=dtype, generator=torch.Generator().manual_seed(0))
    expected = torch.from_numpy(W) @ v.double()
    sparse = scipy.sparse.csr_array(W)
    holders = [W, torch.from_numpy(W), torch.from_numpy(W).float(), sparse, sparse.tocoo(), W.tolist()]
    holders.append(torch.from_numpy(W).to_sparse_coo())
    for held in holders:
        mixed = Dense(held)(v)
        assert mixed.dtype == dtype
        assert (mixed - expected).abs().max() < 1e-6


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_by_nonzero_weights_is_the_product_and_adding_it_changes_no_bit(dtype: type, cores: int):
    n, m, some = 40, 60_000, np.random.default_rng(0)
    W = metropolis(nx.random_regular_graph(4, n, seed=0))
    product = SparseProduct(W, np.dtype(dtype))
    v, total = (some.standard_normal((n, m)).astype(dtype) for _ in range(2))
    made = np.full_like(v, np.nan)
    with threads(cores):
        product.times(v, made)
        assert np.abs(made - W @ v.astype(float)).max() < 50 * np.finfo(dtype).eps
        apart = total + made
        product.add_times(v, total)
        assert np.array_equal(total, apart)
        wide = np.empty((n, 2 * m), dtype)
        product.times(v[:, ::-1], wide[:, ::2])  # neither lies in one piece
        assert np.array_equal(wide[:, ::2], made[:, ::-1])


def test_which_product_is_taken_depends_on_sizes_alone_and_a_sparse_one_that_derives_goes_through_torch():
    assert is_faster(64, 3 * 64, 50)
    assert is_faster(1000, 3 * 1000, 1)
    assert not is_faster(8, 3 * 8, 50)
    assert not is_faster(64, 64 * 32, 650)
    W, v = metropolis(nx.cycle_graph(200)), torch.randn(200, 3, dtype=F64, requires_grad=True)
    Dense(W)(v).square().sum().backward()
    assert torch.allclose(v.grad, torch.from_numpy(2 * W.T @ W) @ v.detach())


def test_a_flow_is_the_mixing_less_the_vector_and_sums_to_zero_at_the_size_of_the_differences():
    network = Dense(metropolis(graph(8)))
    v = 1000 + 1e-3 * torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(network.flow(v.double()), network(v.double()) - v.double(), atol=1e-12)
    assert network.flow(v).sum(dim=0).abs().max() < 1e-8
    assert (network(v) - v).sum(dim=0).abs().max() > 1e-5  # the plain difference rounds at the size of v


def test_together_mixes_each_tensor():
    network = Dense(metropolis(graph(5)))
    a, b = torch.randn(5, 3, dtype=F64), torch.randn(5, 1, dtype=F64)
    for mixed, alone in zip(network.at(0).together(a, b), (network(a), network(b)), strict=True):
        assert torch.allclose(mixed, alone, rtol=1e-14)


def test_bytes_are_counted_per_link_and_averaging_counts_as_a_ring_all_reduce():
    ring = Dense(metropolis(nx.cycle_graph(6)))
    ring(torch.zeros(6, 10))
    assert ring.traffic.bytes == ring.bytes_sent == 12 * 10 * 4
    everyone = Dense(averaging(6))
    everyone(torch.zeros(6, 10))
    assert everyone.traffic.bytes == 2 * 5 * 10 * 4
    neighbours = Dense(Fixed(averaging(6), all_reduce=False))
    v = torch.randn(6, 10)
    assert torch.equal(neighbours(v), everyone(v))
    assert neighbours.traffic.bytes == 6 * 5 * 10 * 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dsgt", ["gradient", "start 1", "wait 1", "start 2", "gradient", "wait 2", "start 3", "wait 3", "start 4"]),
        ("dpsgd", ["start 1", "gradient", "wait 1", "start 2", "gradient", "wait 2", "start 3"]),
        ("d2", ["gradient", "start 1", "wait 1", "gradient", "start 2", "wait 2"]),
    ],
)
def test_messages_travel_while_the_gradient_is_computed(name: str, expected: list[str]):
    log: list[str] = []
    case, problem = CASES[name], quadratic(4)

    def grad(x: Tensor, k: int) -> Tensor:
        log.append("gradient")
        return problem.full(x, k)

    network = Recorder(case.weights(graph(4)), log)
    for _ in itertools.islice(iterate(case.algorithm, grad, network, torch.zeros(5, dtype=F64), 0.01), 3):
        pass
    assert log == expected


@pytest.mark.parametrize("restart", [False, True])
def test_settling_and_restarting_wait_for_everything_in_flight(restart: bool):
    """A message that nobody waits for hangs gloo, and a state with one cannot be saved."""
    log: list[str] = []
    case, problem = CASES["gnsd"], quadratic(4)
    network = Recorder(case.weights(graph(4)), log)
    states = iterate(case.algorithm, problem.full, network, torch.zeros(5, dtype=F64), 0.01)
    state = next(itertools.islice(states, 2, None))
    expected = {field: v.clone() for field, v in tensors(state).items()}
    log.clear()
    sent = len(network.sizes)
    if restart:
        dsgt.restart_tracking(case.algorithm, state, network)
    else:
        settled = dsgt.settle(state)
        assert all(isinstance(f, Tensor | Done) for f in settled)
        assert all(torch.equal(v, expected[field]) for field, v in tensors(settled).items())
    assert {f"wait {sent - 1}", f"wait {sent}"} <= set(log)  # W x and W y


def last_model(name: str, network: Network, rounds: int) -> Tensor:
    x0 = torch.zeros(5, dtype=F64)
    states = iterate(CASES[name].algorithm, quadratic(network.nodes).stochastic, network, x0, 0.01)
    return next(itertools.islice(states, rounds, None)).x


def seconds_per_round(name: str, network: Clocked, rounds: int = 20) -> float:
    case, problem = CASES[name], quadratic(network.nodes)
    states = iterate(case.algorithm, problem.full, network, torch.zeros(5, dtype=F64), 0.001)
    at = [network.seconds for _ in itertools.islice(states, rounds + 1)]
    return (at[-1] - at[rounds // 2]) / (rounds - rounds // 2)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("dpsgd", 5),
        ("d2", 6),
        ("dsgt", 6),
        ("gnsd", 5),
        ("aug-dgm", 7),
        ("extra", 5),
        ("exact-diffusion", 6),
        ("sgp", 6),
    ],
)
def test_a_message_that_travels_during_the_gradient_costs_no_time(name: str, seconds: float):
    case = CASES[name]
    network = Clocked(case.weights(nx.cycle_graph(6)), compute=5, latency=1)
    assert seconds_per_round(name, network) == pytest.approx(seconds)


def test_a_link_sends_one_message_at_a_time():
    """40 bytes at 40 bytes a second to each of d neighbours: d seconds."""
    for g, degree in [(nx.cycle_graph(6), 2), (nx.complete_graph(6), 5)]:
        W = 0.7 * np.eye(6) + 0.3 * metropolis(g)  # not 1/n everywhere, so no all-reduce
        network = Clocked(W, compute=1, bandwidth=40)
        assert seconds_per_round("atc-dpsgd", network) == pytest.approx(1 + degree)


def test_averaging_everyone_costs_a_ring_all_reduce():
    network = Clocked(averaging(4), compute=1, latency=0.5, bandwidth=40)
    assert seconds_per_round("sgd", network) == pytest.approx(1 + 6 * (0.5 + 40 / 4 / 40))


@pytest.mark.parametrize("weights", [Fixed, lambda *W, **how: Periodic(Fixed(*W, **how), 1)], ids=["fixed", "periodic"])
def test_who_may_use_no_all_reduce_sends_to_every_neighbour_in_turn(weights: Callable[..., Weights]):
    network = Clocked(weights(averaging(4), all_reduce=False), compute=1, latency=0.5, bandwidth=40)
    assert seconds_per_round("sgd", network) == pytest.approx(1 + 0.5 + 3 * 40 / 40)


def test_a_busy_link_lets_the_next_message_wait_as_computed_by_hand():
    """DSGT on a star: a gradient takes 1 s, a message 2 s. The hub sends x to its leaves until 3, 5 and 7; it has their
    x at 3 already, but its y must queue until 7 and arrives at 9, 11 and 13; its next x is ready at 9, when the leaves'
    y are all there, and must queue until 13."""
    W = 0.7 * np.eye(4) + 0.3 * metropolis(nx.star_graph(3))
    network = Clocked(W, compute=1, bandwidth=20)
    states = iterate(dsgt.DSGT(), quadratic(4).full, network, torch.zeros(5, dtype=F64), 0.01)
    clocks = [network.clock.tolist() for _ in itertools.islice(states, 3)]
    assert clocks == [[0, 0, 0, 0], [3, 3, 5, 7], [15, 15, 17, 19]]


@pytest.mark.parametrize("bandwidth", [15.0, 1e3], ids=["slow links", "fast links"])
@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if not (case.algorithm.needs.average or case.weights is both)]
)
def test_every_nodes_clock_is_that_of_an_event_simulation(name: str, bandwidth: float):
    case, problem, n, rounds, x0 = CASES[name], quadratic(7), 7, 12, torch.zeros(5, dtype=F64)
    W, compute = case.weights(graph(n)), stragglers(n, mean=3, spread=0.7, seed=1)
    log: list[str] = []

    def noted(x: Tensor, k: int) -> Tensor:
        log.append("gradient")
        return problem.full(x, k)

    recorder, clocked = Recorder(W, log), Clocked(W, compute=compute, latency=0.6, bandwidth=bandwidth)
    for _ in itertools.islice(iterate(case.algorithm, noted, recorder, x0, 0.01), rounds + 1):
        pass
    states = iterate(case.algorithm, problem.full, clocked, x0, 0.01)
    found = [clocked.clock.copy() for _ in itertools.islice(states, rounds)]
    expected = Events(W, log, recorder.sizes, compute, latency=0.6, bandwidth=bandwidth).run()
    assert np.allclose(found, expected, rtol=1e-12)  # sums of the same times in another order


def test_one_straggler_slows_everyone_and_random_times_are_seeded():
    slow = Clocked(metropolis(nx.cycle_graph(6)), compute=[1, 1, 1, 9, 1, 1])
    assert seconds_per_round("dsgt", slow) == pytest.approx(9)
    W = metropolis(nx.cycle_graph(6))
    one, two, other = (
        seconds_per_round("dsgt", Clocked(W, compute=stragglers(6, mean=1, spread=0.5, seed=s))) for s in (1, 1, 2)
    )
    assert one == two != other
    times = np.concatenate([stragglers(50, mean=3, spread=0.5, seed=0)(k) for k in range(200)])
    assert times.mean() == pytest.approx(3, rel=0.02)
    assert np.log(times).std() == pytest.approx(0.5, rel=0.03)


def test_a_clock_changes_no_number_and_works_on_changing_networks():
    Ws = [metropolis(graph(6, s)) for s in (1, 5)]
    clocked = Clocked(Cycle(Ws), compute=1, latency=0.1, bandwidth=1e3)
    plain, timed = (last_model("dsgt", network, rounds=30) for network in (Cycle(Ws), clocked))
    assert torch.equal(plain, timed)
    assert clocked.seconds > 30
    assert clocked.traffic.mixings == 60


def test_the_same_run_twice_is_the_same_bit_for_bit():
    W = metropolis(graph(6))
    assert torch.equal(last_model("dsgt", Dense(W), rounds=50), last_model("dsgt", Dense(W), rounds=50))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Cycle([]), "no weights"),
        (lambda: Cycle([np.eye(2), np.eye(3)]), "matrix 0 of the cycle has 2 nodes, but matrix 1 has 3"),
        (lambda: Clocked(np.eye(2), latency=-1), "latency is -1"),
        (lambda: Clocked(np.eye(2), bandwidth=0), "bandwidth 0"),
        (lambda: Clocked(np.eye(2), compute=[1, 2, 3]), "one for each of 2 nodes"),
        (lambda: Clocked(np.eye(2), compute=-1), "expected one time >= 0"),
        (lambda: Dense(np.ones((2, 3))), "square"),
        (lambda: Dense(Cycle([np.eye(2), np.eye(2)]))(torch.zeros(2, 1)), r"changes from round to round; mix with"),
        (lambda: Dense(np.zeros((0, 0))), "square"),
        (lambda: Dense([[1.0, float("nan")], [0.0, 1.0]]), "not a finite number in row 0"),
        (lambda: Dense(np.eye(3))(torch.zeros(4, 2)), "not the node axis of 3 nodes"),
        (lambda: dsgt.networks.TorchPeers(np.eye(2)), "torchrun --nproc-per-node"),
        (lambda: dsgt.networks.MPIPeers(np.eye(2)), "1 process: start it with mpiexec -n 2"),
    ],
)
def test_bad_networks_are_refused_with_a_reason(build, message: str):
    with pytest.raises((ValueError, RuntimeError), match=message):
        build()


def test_what_a_mixing_gave_is_never_overwritten():
    network = Dense(metropolis(nx.cycle_graph(8)))
    v = torch.randn(8, 1 << 16, generator=torch.Generator().manual_seed(0))
    expected = network(v).clone()
    held = [network(v)]
    held += [network(v)[2], network(v).detach()[1:].view(-1), network(v).numpy()]
    for _ in range(8):
        network(2 * v)
    assert torch.equal(held[0], expected)
    assert torch.equal(held[1], expected[2])
    assert torch.equal(held[2], expected[1:].reshape(-1))
    assert np.array_equal(held[3], expected.numpy())


@pytest.mark.parametrize(
    "make", [lambda W: Cycle([Dense(W), Dense(W)]), lambda W: Dense(Dense(W)), lambda W: Cycle([Cycle([W])])]
)
def test_a_network_in_the_place_of_weights_is_told_how_to_write_it(make) -> None:
    with pytest.raises(TypeError, match=r"a weight matrix was expected.*TorchPeers\(Cycle\(\[W0, W1\]\)\)"):
        make(metropolis(nx.cycle_graph(4)))
