"""Virtual time: where the asynchronous methods end, what they are when nobody is slow, and what a clock says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dsgt
from dsgt.asynchronous.algorithms import ADPSGD, AGP, APPG, ASYNCHRONOUS, RFAST, AsySONATA, AsySPA
from dsgt.asynchronous.events import Absence
from dsgt.asynchronous.node import mass
from dsgt.asynchronous.run import Grid, run_async
from dsgt.data import partition
from dsgt.data.samples import Samples
from dsgt.data.sampling import Full, WithReplacement
from dsgt.networks import Clocked, memoryless, slowed, stragglers, trace
from dsgt.problems import LeastSquares
from dsgt.topologies import complete, directed_ring, metropolis, pull_weights, push_weights, ring, spanning_trees
from dsgt.topologies.changing import Fixed, TwoMatrices, Weights

NODES, DIM = 6, 3
NOTHING = {"loss": lambda s: 0.0}
DIRECTED = directed_ring(NODES)
DIRECTED.add_edge(0, 3)


def quadratics(nodes: int = NODES) -> LeastSquares:
    """f_i = (a_i / 2) |x - c_i|^2 with different a_i and c_i."""
    curvature = torch.linspace(1, 2, nodes, dtype=torch.float64)
    centres = torch.sin(torch.arange(nodes * DIM, dtype=torch.float64)).reshape(nodes, DIM) * 2
    rows = (curvature * DIM).sqrt()[:, None, None] * torch.eye(DIM, dtype=torch.float64)
    data = Samples(rows.reshape(-1, DIM), (rows @ centres[..., None]).reshape(-1))
    return LeastSquares(data, partition.by_column(torch.arange(nodes).repeat_interleave(DIM).tolist()), Full())


PROBLEM = quadratics()


def two(graph: Any) -> Weights:
    return TwoMatrices(pull_weights(graph), push_weights(graph))


def weights_for(name: str) -> Weights:
    kind = ASYNCHRONOUS[name]
    if kind.needs.symmetric:
        return Fixed(metropolis(ring(NODES)))
    return two(DIRECTED) if kind.needs.push is not None else Fixed(push_weights(DIRECTED))


def uneven(W: Weights, **link: float) -> Clocked:
    """Node 2 is three times slower, letters take their time and overtake each other."""
    compute = slowed(stragglers(W.nodes, mean=1, spread=0.3, seed=1), {2: 3.0}, nodes=W.nodes)
    return Clocked(W, compute=compute, **({"latency": 0.05, "jitter": 0.7, "seed": 5} | link))


def weighted_optimum(weights: Tensor) -> Tensor:
    """The minimum of sum_i w_i f_i."""
    parts = [PROBLEM[i] for i in range(NODES)]
    zero, one = torch.zeros(DIM, dtype=torch.float64), torch.ones(DIM, dtype=torch.float64)
    b = sum(w * -p.gradient(zero) for w, p in zip(weights, parts, strict=True))
    a = sum(w * (p.gradient(one) - p.gradient(zero)) for w, p in zip(weights, parts, strict=True))
    return b / a


def error(x: Tensor, to: Tensor) -> float:
    """Of the worst node."""
    return float((x - to).norm(dim=-1).max())


@pytest.mark.parametrize(("kind", "lr"), [(AsySONATA, 0.3), (APPG, 0.1)])
def test_tracking_methods_reach_the_optimum_over_slow_nodes_and_lossy_directed_links(kind: Any, lr: float):
    found = run_async(kind(), PROBLEM, uneven(two(DIRECTED), loss=0.3), seconds=600, lr=lr, metrics=NOTHING)
    assert error(found.x, PROBLEM.optimum) < 1e-10


def test_r_fast_needs_no_more_than_two_trees_with_one_root():
    """Models go outwards only and trackers inwards only; the root steps by the sum of all gradients."""
    trees = spanning_trees(DIRECTED, root=2)
    for W, axis in ((trees.at(0), 1), (trees.push.at(0), 0)):
        assert np.asarray(W.sum(axis=axis)).ravel() == pytest.approx(1)
        assert (W - np.diag(W.diagonal()) != 0).sum() == NODES - 1
    found = run_async(RFAST(), PROBLEM, uneven(trees, loss=0.3), seconds=900, lr=0.006, metrics=NOTHING)
    assert error(found.x, PROBLEM.optimum) < 1e-10
    with pytest.raises(ValueError, match="AsySONATA needs a connected network"):
        run_async(AsySONATA(), PROBLEM, trees, seconds=1, lr=0.1)
    apart = TwoMatrices(spanning_trees(DIRECTED, root=2).pull, spanning_trees(DIRECTED, root=3).push)
    with pytest.raises(ValueError, match=r"RFAST needs a root.*topologies\.spanning_trees"):
        run_async(RFAST(), PROBLEM, apart, seconds=1, lr=0.1)
    with pytest.raises(ValueError, match="root is 9, but the nodes are 0 to 5"):
        spanning_trees(DIRECTED, root=9)


def test_asyspa_falls_like_its_step_and_makes_up_for_speeds():
    ends = []
    for seconds in (100, 900):
        network = uneven(Fixed(push_weights(DIRECTED)))
        found = run_async(
            AsySPA(), PROBLEM, network, seconds=seconds, lr=lambda k: 0.1 / math.sqrt(k + 1), metrics=NOTHING
        )
        ends.append(error(found.x, PROBLEM.optimum))
    assert ends[1] < 0.5 * ends[0]
    assert ends[1] < 0.05


@pytest.mark.parametrize(
    ("lr", "power"), [(lambda k: 0.01, 1.0), (lambda k: 0.3 / math.sqrt(k + 1), 0.5)], ids=["constant", "own count"]
)
def test_agp_ends_where_its_bias_says(lr: Callable[[int], float], power: float):
    """Not at the optimum: who wakes more often counts more, by the square root where its own count slows it down."""
    network = Clocked(Fixed(push_weights(DIRECTED)), compute=[1, 1, 3, 1, 1, 1], latency=0.05)
    found = run_async(AGP(), PROBLEM, network, seconds=800, lr=lr, metrics=NOTHING)
    rates = torch.tensor([1, 1, 1 / 3, 1, 1, 1], dtype=torch.float64)
    biased, exact = weighted_optimum(rates**power), PROBLEM.optimum
    assert float((biased - exact).norm()) > 0.03
    assert error(found.x, biased) < 0.25 * error(found.x, exact)


def test_ad_psgd_falls_with_the_learning_rate():
    network = Clocked(metropolis(ring(NODES)), compute=stragglers(NODES, mean=1, spread=0.3, seed=1), latency=0.05)
    grid = Grid(ADPSGD(), PROBLEM, network, lrs=[0.2, 0.05, 0.0125], metrics=NOTHING)
    ends = [error(result.x, PROBLEM.optimum) for result in grid.run(seconds=800, every=800)]
    assert ends[1] < 0.4 * ends[0]
    assert ends[2] < 0.4 * ends[1]


def test_ad_psgd_bears_answers_that_take_many_gradients():
    """One question at a time: several with the same x would move a node by a multiple of the differences."""
    W = metropolis(complete(NODES))
    network = Clocked(W, compute=stragglers(NODES, mean=1, spread=0.3, seed=1), latency=8.0, loss=0.3)
    found = run_async(ADPSGD(), PROBLEM, network, seconds=3000, lr=0.002, metrics=NOTHING)
    assert error(found.x, PROBLEM.optimum) < 0.4


# --- nobody is slow and nothing takes time: everyone hears what the others wrote a round ago


def equal_clocks(algorithm: Any, W: Weights, rounds: int, lr: float = 0.1) -> Tensor:
    network = Clocked(W, compute=1.0)
    return run_async(algorithm, PROBLEM, network, seconds=rounds + 0.5, lr=lr, metrics=NOTHING).x


@pytest.mark.parametrize("kind", [AGP, AsySPA])
def test_with_equal_clocks_gradient_push_is_osgp(kind: Any):
    W = Fixed(push_weights(DIRECTED))
    other = dsgt.run(dsgt.OSGP(tau=1), PROBLEM, W, rounds=40, lr=0.1, metrics=NOTHING)
    assert torch.allclose(equal_clocks(kind(floor=1e-9), W, 40), other.x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [AsySONATA, APPG])
def test_with_equal_clocks_tracking_is_push_pull_whose_messages_take_a_round(kind: Any):
    W = two(DIRECTED)
    A, P = W.at(0), W.push.at(0)
    A, P = (np.asarray(M.todense()) if hasattr(M, "todense") else np.asarray(M) for M in (A, P))
    own_a, own_p = np.diag(np.diag(A)), np.diag(np.diag(P))
    gradient = PROBLEM.oracle(0)

    def G(X: Any) -> Any:
        return gradient(torch.from_numpy(X), 0).numpy()

    X, S, Y = np.zeros((NODES, DIM)), np.zeros((NODES, DIM)), np.zeros((NODES, DIM))
    said, pushed = None, np.zeros((NODES, DIM))
    for _ in range(40):
        new = G(X)
        if kind is AsySONATA:
            whole = Y + pushed + new - S
            Y = own_p @ whole
            V = X - 0.1 * Y
            X = own_a @ V + (A - own_a) @ said if said is not None else own_a @ V + np.diag((A - own_a).sum(1)) @ V
            said = V
        else:
            whole = Y + new - S
            Y = own_p @ whole + pushed
            mixed = own_a @ X + ((A - own_a) @ said if said is not None else np.diag((A - own_a).sum(1)) @ X)
            said, X = X, mixed - 0.1 * Y
        S, pushed = new, (P - own_p) @ whole
    assert torch.allclose(equal_clocks(kind(), W, 40), torch.from_numpy(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_alone_every_method_is_gradient_descent(name: str):
    alone = quadratics(1)
    found = run_async(ASYNCHRONOUS[name](), alone, np.ones((1, 1)), seconds=20, lr=0.1, metrics=NOTHING)
    other = dsgt.run(dsgt.SGD(), alone, np.ones((1, 1)), rounds=20, lr=0.1, metrics=NOTHING)
    assert torch.allclose(found.x, other.x, rtol=0, atol=1e-12)


def test_two_nodes_of_ad_psgd_that_only_average_both_have_the_mean():
    start = torch.tensor([[1.0], [5.0]], dtype=torch.float64)
    data = Samples(torch.zeros(2, 1, dtype=torch.float64), torch.zeros(2, dtype=torch.float64))  # all gradients are 0
    flat = LeastSquares(data, partition.equal(data, 2, seed=0), Full())
    network = Clocked(metropolis(complete(2)), compute=[1.0, 1.7], latency=0.01)
    found = run_async(ADPSGD(), flat, network, seconds=120, lr=0.1, x0=start, metrics=NOTHING)
    assert torch.allclose(found.x, torch.full((2, 1), 3.0, dtype=torch.float64), rtol=0, atol=1e-9)


# --- time


def test_a_run_is_a_function_of_its_seeds():
    def rows(seed: int) -> Any:
        network = uneven(two(DIRECTED), loss=0.2, seed=seed)
        return run_async(AsySONATA(), PROBLEM, network, seconds=30, lr=0.2).x

    assert torch.equal(rows(1), rows(1))
    assert not torch.equal(rows(1), rows(2))


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_the_runs_of_a_grid_are_those_alone(name: str):
    """The schedule does not depend on the numbers; a run that diverges hurts only itself."""
    data = Samples(torch.randn(60, 2, generator=torch.Generator().manual_seed(0)).double(), torch.ones(60).double())
    drawn = LeastSquares(data, partition.equal(data, NODES, seed=0), WithReplacement(batch=12))
    lrs, seeds = [0.05, 50.0, 0.02], [3, 4]

    def network() -> Clocked:
        return uneven(weights_for(name), loss=0.1, bandwidth=500.0)

    grid = Grid(ASYNCHRONOUS[name](), drawn, network(), lrs=lrs, seeds=seeds)
    found = grid.run(seconds=40, every=10, loss_limit=1e3)
    assert [isinstance(result, dsgt.DivergedError) for result in found] == [False] * 2 + [True] * 2 + [False] * 2
    for (lr, seed), result in zip([(lr, s) for lr in lrs for s in seeds], found, strict=True):
        if lr < 1:
            alone = run_async(ASYNCHRONOUS[name](), drawn, network(), seconds=40, every=10, lr=lr, seed=seed)
            assert torch.allclose(alone.x, result.x, rtol=0, atol=1e-12)
            assert alone.column("megabytes") == result.column("megabytes")


def test_a_link_carries_one_letter_at_a_time_and_only_the_newest_waits():
    """A letter of 2 vectors takes 16 x 3 / 24 = 2 s, a gradient 1 s: half of what is written is never sent."""
    W = two(directed_ring(NODES))
    grid = Grid(AsySONATA(), PROBLEM, Clocked(W, compute=1.0, bandwidth=24.0), lrs=[0.01], metrics=NOTHING)
    grid.run(seconds=100.5, every=100.5)
    assert grid.events.wakes == 100 * NODES
    assert grid.events.letters == 50 * NODES
    assert grid.events.bytes == 50 * NODES * 48


def test_a_letter_arrives_after_its_transfer_and_the_latency():
    """As in Clocked: after 1 s of gradient, 2 s of sending and 0.25 s of latency."""
    W = two(directed_ring(NODES))
    grid = Grid(
        AsySONATA(), PROBLEM, Clocked(W, compute=1.0, bandwidth=24.0, latency=0.25), lrs=[0.01], metrics=NOTHING
    )
    heard = [box for node in grid.nodes for box in node.mail.of.values()]
    grid.events.advance(3.24)
    assert all(box.letter is None for box in heard)
    grid.events.advance(3.26)
    assert all(box.letter is not None for box in heard)


def test_of_a_hundred_so_many_letters_never_arrive():
    """A node's events are its wakes and what it has heard."""
    network = Clocked(two(DIRECTED), compute=1.0, latency=0.01, loss=0.3)
    grid = Grid(AsySONATA(), PROBLEM, network, lrs=[0.01], metrics=NOTHING)
    grid.run(seconds=300.5, every=300.5)
    heard = sum(node.mail.number - node.mail.k for node in grid.nodes)
    assert heard / grid.events.letters == pytest.approx(0.7, abs=0.03)  # of 2100, 0.01 is the standard deviation


def test_a_nodes_gradients_take_the_same_time_in_rounds_and_in_events():
    compute = stragglers(NODES, mean=1, spread=0.8, seed=3)
    clocked = Clocked(metropolis(ring(NODES)), compute=compute)
    clocked.activity = []
    run_async(ADPSGD(), PROBLEM, clocked, seconds=400, lr=0.01, metrics=NOTHING)
    took = [end - begin for i, begin, end in clocked.activity if i == 4]
    assert len(took) > 300
    assert took == pytest.approx([compute(k)[4] for k in range(len(took))], abs=1e-9)


@pytest.mark.parametrize(
    ("compute", "mean"),
    [
        (memoryless(50, mean=3.0, seed=1), 3.0),
        (stragglers(50, mean=3.0, spread=0.8, seed=1), 3.0),
        (slowed(2.0, {0: 26.0}, nodes=50), 3.0),
    ],
)
def test_compute_times_have_their_mean(compute: Any, mean: float):
    assert np.mean([compute(k) for k in range(400)]) == pytest.approx(mean, rel=0.05)


def test_a_trace_of_one_device_is_walked_from_another_place_by_every_node(tmp_path: Any):
    path = tmp_path / "trace.csv"
    path.write_text("seconds\n" + "".join(f"{s}\n" for s in range(1, 11)))
    times = np.array([trace(path, nodes=4, seed=0)(k) for k in range(20)])
    assert set(times[0]) != {times[0, 0]}
    assert (np.sort(times[:10], axis=0) == np.arange(1, 11)[:, None]).all()
    assert (times[10:] == times[:10]).all()
    path.write_text("1,2\n3,4\n")
    assert trace(path, nodes=2, seed=0)(3).tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match="one column for all nodes or one for each of 3"):
        trace(path, nodes=3, seed=0)


def test_a_lost_message_of_a_round_is_sent_again_after_a_round_trip():
    W = metropolis(ring(NODES))
    seconds = []
    for loss in (0.0, 0.5):
        network = Clocked(W, compute=1.0, latency=0.1, loss=loss)
        dsgt.run(dsgt.AtcDPSGD(), PROBLEM, network, rounds=200, lr=0.1, metrics=NOTHING)
        seconds.append(network.seconds)
    assert seconds[0] == pytest.approx(200 * 1.1)
    # the slowest of 12 messages, and a ring lets nobody run far ahead: 1 to 5 more round trips
    assert 200 * (1.1 + 0.2) < seconds[1] < 200 * (1.1 + 1.0)


# --- leaving and returning


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("kind", [AsySONATA, APPG])
def test_a_node_may_leave_and_return_while_the_others_go_on(kind: Any, memory: bool):
    """Three times, and mass is as it was: to round-off at the end of each absence."""
    away = [Absence(node, begin, begin + 15, memory) for node, begin in ((1, 20.0), (4, 50.0), (1, 80.0))]
    lr = 0.3 if kind is AsySONATA else 0.1
    grid = Grid(kind(), PROBLEM, uneven(two(DIRECTED), loss=0.2), lrs=[lr], absences=away, metrics=NOTHING)
    grid.events.advance(34.0)
    before = [node.mail.k for node in grid.nodes]
    for time in (50.0, 64.9, 66.0, 94.9, 96.0, 700.0):
        grid.events.advance(time)
        assert torch.allclose(mass(grid.nodes), sum(torch.as_tensor(n.state.g) for n in grid.nodes), atol=1e-10)
    assert all(k > 5 for i, k in enumerate(before) if i not in (1, 2))
    (found,) = grid.run(seconds=701, every=701)
    assert error(found.x, PROBLEM.optimum) < 1e-10


def test_nothing_of_a_node_that_is_away_happens_and_its_gradient_under_way_is_lost():
    network = Clocked(metropolis(ring(NODES)), compute=1.0)
    grid = Grid(APPG(), PROBLEM, network, lrs=[0.01], absences=[Absence(1, 10.5, 20.25)], metrics=NOTHING)
    for time, wakes in ((10.4, 10), (20.2, 10), (21.2, 10), (21.3, 11)):
        grid.events.advance(time)
        assert grid.nodes[1].mail.k == wakes
    assert grid.nodes[0].mail.k == 21


@pytest.mark.parametrize("name", ["asyspa", "agp", "ad-psgd"])
@pytest.mark.parametrize("memory", [True, False])
def test_methods_that_end_near_the_optimum_do_so_too_where_nodes_leave_and_return(name: str, memory: bool):
    """Also where a neighbour takes back the weight it gave: sum(w) = n to round-off of what has been given."""
    away = [Absence(1, 100.0, 120.0, memory), Absence(4, 200.0, 220.0, memory)]
    compute = stragglers(NODES, mean=1, spread=0.3, seed=1)
    network = Clocked(weights_for(name), compute=compute, latency=0.05, jitter=0.3, loss=0.1)
    far = torch.full((DIM,), 3.0, dtype=torch.float64)
    grid = Grid(ASYNCHRONOUS[name](), PROBLEM, network, lrs=[0.005], absences=away, x0=far, metrics=NOTHING)
    (found,) = grid.run(seconds=900, every=900)
    if name != "ad-psgd":
        assert float(mass(grid.nodes)[0, -1]) == pytest.approx(NODES, abs=1e-8)
    assert error(found.x, PROBLEM.optimum) < 0.45


# --- refusals


def test_what_cannot_run_is_refused_before_it_starts():
    W = metropolis(ring(NODES))
    with pytest.raises(ValueError, match="of node 0 take 0"):
        run_async(AsySONATA(), PROBLEM, Clocked(W), seconds=1, lr=0.1)
    with pytest.raises(ValueError, match="seconds is -1"):
        run_async(AsySONATA(), PROBLEM, W, seconds=-1, lr=0.1)
    with pytest.raises(TypeError, match="DSGT waits for its neighbours"):
        run_async(dsgt.DSGT(), PROBLEM, W, seconds=1, lr=0.1)
    with pytest.raises(TypeError, match="AsySONATA waits for nobody"):
        dsgt.run(AsySONATA(), PROBLEM, W, rounds=1, lr=0.1)
    with pytest.raises(ValueError, match="AGP needs the columns"):
        run_async(AGP(), PROBLEM, pull_weights(DIRECTED), seconds=1, lr=0.1)
    with pytest.raises(ValueError, match="leaves at 3"):
        Absence(0, 3.0, 2.0)
    with pytest.raises(ValueError, match="one after the other"):
        run_async(AsySONATA(), PROBLEM, W, seconds=1, lr=0.1, absences=[Absence(0, 1.0, 5.0), Absence(0, 2.0, 6.0)])
    with pytest.raises(dsgt.DivergedError, match="virtual seconds"):
        run_async(AsySONATA(), PROBLEM, W, seconds=100, lr=100.0, loss_limit=1e6)
