"""Methods that look at single messages: clipping, trimming, relaying on a tree, and averaging over lossy links."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

import dsgt
from dsgt.core import Algorithm, Weights
from dsgt.networks import in_threads
from dsgt.run import iterate
from dsgt.topologies import Cycle, Lossy, Pairs, averaging, binary_tree, complete, metropolis, path, ring, star
from dsgt.topologies.changing import as_weights
from dsgt.topologies.matrix import to_dense
from support.cases import F64, graph, quadratic
from support.reference import REFERENCE

N = 8
W = metropolis(graph(N))
COMPLETE = metropolis(complete(N))
TREE = metropolis(binary_tree(N))
PROBLEM = quadratic(N)
ZERO = torch.zeros(5, dtype=F64)
LR = 0.02


def starts(method: type[Algorithm] | None = None) -> Tensor:
    x = torch.randn(N, 5, dtype=F64, generator=torch.Generator().manual_seed(3))
    return x[:1].repeat(N, 1) if method is not None and method.equal_starts else x


def after(method: Algorithm, grad: Callable, network: object, x0: Tensor, lr: float, rounds: int) -> tuple:
    return next(itertools.islice(iterate(method, grad, network, x0, lr), rounds, None))


KINDS: dict[str, tuple[str, Callable[..., Algorithm], dict[str, float], Callable[[], Weights]]] = {
    "clipped": ("clipped-gossip", dsgt.ClippedGossip, {"tau": 0.1}, lambda: as_weights(W)),
    "clipped, pairs": ("clipped-gossip", dsgt.ClippedGossip, {"tau": 0.3}, lambda: Pairs(W, seed=1)),
    "clipped, lossy": ("clipped-gossip", dsgt.ClippedGossip, {"tau": 0.3}, lambda: Lossy(W, 0.5, 1, both_ways=True)),
    "clipped, cycle": ("clipped-gossip", dsgt.ClippedGossip, {"tau": 0.3}, lambda: Cycle([W, COMPLETE])),
    "trimmed, b = 0": ("trimmed-mean", dsgt.TrimmedMean, {"b": 0}, lambda: as_weights(W)),
    "trimmed, b = 2": ("trimmed-mean", dsgt.TrimmedMean, {"b": 2}, lambda: as_weights(W)),
    "trimmed, lossy": ("trimmed-mean", dsgt.TrimmedMean, {"b": 1}, lambda: Lossy(COMPLETE, 0.6, 1)),
    "trimmed, pairs": ("trimmed-mean", dsgt.TrimmedMean, {"b": 0}, lambda: Pairs(W, seed=1)),
    "median, lossy": ("median", dsgt.Median, {}, lambda: Lossy(COMPLETE, 0.6, 1)),
    "median, pairs": ("median", dsgt.Median, {}, lambda: Pairs(W, seed=1)),
    "relay, star": ("relay-sgd", dsgt.RelaySGD, {}, lambda: as_weights(metropolis(star(N)))),
    "relay, path": ("relay-sgd", dsgt.RelaySGD, {}, lambda: as_weights(metropolis(path(N)))),
    "rps, lossy": ("rps", dsgt.RPS, {}, lambda: Lossy(averaging(N), 0.4, 1)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_published_recursion_over_weights_of_every_kind(kind: str) -> None:
    """A node may hear nobody, and tell nobody, in a round."""
    name, make, parameters, weights_of = KINDS[kind]
    weights = weights_of()
    also = {"answers": lambda k: to_dense(weights.push.at(k))} if name == "rps" else {}

    def G(X: np.ndarray, k: int) -> np.ndarray:
        return PROBLEM.stochastic(torch.from_numpy(X), k).numpy()

    expected = REFERENCE[name](
        G, lambda k: to_dense(weights.at(k)), starts(make).numpy(), lambda k: LR, 40, **parameters, **also
    )
    states = itertools.islice(iterate(make(**parameters), PROBLEM.stochastic, weights, starts(make), LR), 41)
    found = np.stack([s.x.numpy() for s in states])
    assert np.abs(found - np.stack(expected)).max() < 1e-12  # 40 rounds of round-off at size 10


@pytest.mark.parametrize("kind", KINDS)
def test_real_nodes_do_what_the_simulator_does(kind: str) -> None:
    _, make, parameters, weights_of = KINDS[kind]

    def act(network: dsgt.core.Network) -> Tensor:
        i = network.node

        def grad(x: Tensor, k: int) -> Tensor:
            return PROBLEM.node_gradient(i, x, k)

        return after(make(**parameters), grad, network, starts(make)[i], LR, 25).x

    expected = after(make(**parameters), PROBLEM.stochastic, weights_of(), starts(make), LR, 25).x
    assert (torch.stack(in_threads(weights_of(), act)) - expected).abs().max() < 1e-12  # as above


@pytest.mark.parametrize("kind", KINDS)
def test_models_keep_their_precision(kind: str) -> None:
    _, make, parameters, weights_of = KINDS[kind]
    state = after(make(**parameters), lambda x, k: x, weights_of(), starts(make).float(), LR, 3)
    assert state.x.dtype == torch.float32


@pytest.mark.parametrize("weights", [W, Pairs(W, seed=1), Lossy(W, 0.5, 1, both_ways=True)], ids=repr)
def test_gossip_that_clips_nothing_is_adapt_then_combine(weights: Weights) -> None:
    clipped = after(dsgt.ClippedGossip(math.inf), PROBLEM.stochastic, weights, starts(), LR, 100).x
    plain = after(dsgt.AtcDPSGD(), PROBLEM.stochastic, weights, starts(), LR, 100).x
    assert (clipped - plain).abs().max() < 1e-13  # round-off


def test_a_neighbour_pulls_no_further_than_tau_times_its_weight() -> None:
    x = starts() * 100
    moved = after(dsgt.ClippedGossip(0.01), lambda x, k: torch.zeros_like(x), W, x, 1.0, 1).x - x
    pull = 0.01 * (1 - np.diag(W))
    assert (moved.norm(dim=1).numpy() <= pull * (1 + 1e-9)).all()
    assert moved.norm(dim=1).min() > 0


def lies(size: float) -> Callable[[Tensor, int], Tensor]:
    """Node 7 sends noise of this size in every round, whatever it hears."""

    def grad(x: Tensor, k: int) -> Tensor:
        g = PROBLEM.full(x, k)
        noise = size * torch.randn(5, dtype=F64, generator=torch.Generator().manual_seed(k))
        return torch.cat([g[:-1], (x[-1:] - noise) / LR])

    return grad


def honest_error(x: Tensor) -> float:
    """From the optimum of the seven honest nodes."""
    optimum = torch.linalg.solve(PROBLEM.H[:-1].sum(dim=0), PROBLEM.c[:-1].sum(dim=0))
    return (x[:-1] - optimum).norm(dim=1).max().item()


@pytest.mark.parametrize("weights", [W, COMPLETE], ids=["random", "complete"])
@pytest.mark.parametrize("method", [dsgt.ClippedGossip(1.0), dsgt.TrimmedMean(1), dsgt.Median()], ids=repr)
def test_one_liar_of_eight_does_bounded_harm(method: Algorithm, weights: np.ndarray) -> None:
    """Plain gossip is carried 100 times as far."""
    assert honest_error(after(method, lies(1e3), weights, ZERO, LR, 700).x) < 1.0
    assert honest_error(after(dsgt.AtcDPSGD(), lies(1e3), weights, ZERO, LR, 50).x) > 100


@pytest.mark.parametrize("lie", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("method", [dsgt.ClippedGossip(1.0), dsgt.TrimmedMean(1), dsgt.Median()], ids=repr)
def test_a_message_that_is_no_number_is_not_taken_for_one(method: Algorithm, lie: float) -> None:
    network, state = dsgt.networks.Dense(COMPLETE), method.init(starts(), None)
    for k in range(20):
        x = torch.cat([state.x[:-1], torch.full((1, 5), lie, dtype=F64)])
        state = method.update(state._replace(x=x), torch.zeros_like(x), network.at(k), LR)
    assert state.x[:-1].isfinite().all()
    assert state.x[:-1].abs().max() <= starts().abs().max()  # within what the honest said


def test_on_a_tree_every_model_arrives_with_the_same_weight() -> None:
    tree = binary_tree(N)
    far = nx.diameter(tree)
    states = list(itertools.islice(iterate(dsgt.RelaySGD(), PROBLEM.full, TREE, ZERO, LR), far + 3))
    counts = [1 + s.heard[..., -1].sum(dim=-1) for s in states]
    assert all((c == N).all() for c in counts[far:])
    assert not (counts[far - 1] == N).all()


def test_relaying_leaves_nodes_that_agree_where_they_are() -> None:
    x = torch.ones(5, dtype=F64) / 3
    states = itertools.islice(iterate(dsgt.RelaySGD(), lambda x, k: torch.zeros_like(x), TREE, x, LR), 60)
    assert max((s.x - x).abs().max().item() for s in states) < 1e-15


@pytest.mark.parametrize("tree", [binary_tree(N), path(N), star(N)])
def test_relaying_reaches_the_optimum_of_uneven_different_data(tree: nx.Graph) -> None:
    x = after(dsgt.RelaySGD(), PROBLEM.full, metropolis(tree), ZERO, 0.2 / PROBLEM.L, 4000).x
    assert (x - PROBLEM.optimum).norm() < 1e-9


@pytest.mark.parametrize("weights", [metropolis(ring(6)), W, Lossy(TREE, 0.1), Cycle([TREE, TREE])], ids=repr)
def test_relaying_is_refused_where_the_network_is_no_tree(weights: object) -> None:
    with pytest.raises(ValueError, match=r"RelaySGD needs a (tree|network that does not change).*use"):
        iterate(dsgt.RelaySGD(), PROBLEM.full, weights, ZERO, LR)


def test_a_network_with_too_few_links_is_no_tree_either() -> None:
    """As many links as a tree has, but a circle and a node alone; and one that hears nobody."""
    circle = nx.Graph([(0, 1), (1, 2), (2, 0)])
    circle.add_node(3)
    apart = nx.to_numpy_array(circle) / 4
    np.fill_diagonal(apart, 1 - apart.sum(axis=1))
    with pytest.raises(ValueError, match=r"RelaySGD needs a connected network"):
        iterate(dsgt.RelaySGD(), PROBLEM.full, apart, ZERO, LR)


def test_averaging_by_blocks_without_losses_is_sgd() -> None:
    for m in (5, 8, 13):  # fewer numbers than nodes, as many, more
        problem, x0 = quadratic(N, m), torch.zeros(m, dtype=F64)
        blocks = after(dsgt.RPS(), problem.stochastic, averaging(N), x0, LR, 100).x
        sgd = after(dsgt.SGD(), problem.stochastic, averaging(N), x0, LR, 100).x
        assert (blocks - sgd).abs().max() < 1e-13  # round-off


def test_averaging_by_blocks_over_lossy_links_comes_closer_with_a_smaller_step() -> None:
    def missed(lr: float) -> float:
        lossy = Lossy(averaging(N), 0.2, seed=1)
        states = itertools.islice(iterate(dsgt.RPS(), PROBLEM.full, lossy, ZERO, lr), round(8 / lr), round(24 / lr))
        return torch.stack([(s.x - PROBLEM.optimum).norm() for s in states]).mean().item()

    assert missed(0.04) > 1.5 * missed(0.01) > 0.01


def test_averaging_by_blocks_is_refused_where_somebody_never_hears_somebody() -> None:
    with pytest.raises(
        ValueError, match=r"RPS needs everybody to hear everybody, but node \d never hears node \d; use"
    ):
        iterate(dsgt.RPS(), PROBLEM.full, Lossy(W, 0.1), ZERO, LR)


def test_methods_whose_weights_must_balance_refuse_links_that_fail_one_way() -> None:
    for method in (dsgt.DSGT(), dsgt.ClippedGossip()):
        with pytest.raises(ValueError, match=r"columns? .*Lossy"):
            iterate(method, PROBLEM.full, Lossy(W, 0.1), ZERO, LR)


def test_blocks_are_averaged_from_equal_models_on_only() -> None:
    with pytest.raises(ValueError, match="x0 holds different models, but RPS needs equal ones"):
        iterate(dsgt.RPS(), PROBLEM.stochastic, averaging(N), starts(), LR)
