"""Methods that invert gradients: DSBA, which steps to where a resolvent says, and ESDACD and ADFS, which move the duals
of one edge, or of one part of a node's samples, a round."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dsgt
from dsgt import randomness
from dsgt.algorithms.named import label, method
from dsgt.core import Algorithm
from dsgt.data import Shards
from dsgt.data.sampling import Full, WithReplacement
from dsgt.engine.questions import Questions
from dsgt.networks import Clocked, Dense, in_threads
from dsgt.oracles.table import PARTS
from dsgt.problems import Hinge, LeastSquares, Logistic, Model
from dsgt.run import prepared
from dsgt.topologies import Pairs, metropolis, ring
from support import resolvent_reference as published
from support.oracle_reference import Sums

F64 = torch.float64
SIZES = [6, 7, 8, 13]
N, M, Q, SEED = 4, 5, 6, 3
W = metropolis(ring(N))


@cache
def samples() -> tuple[Tensor, Tensor, Shards]:
    generator = torch.Generator().manual_seed(3)
    A = torch.randn(sum(SIZES), M, dtype=F64, generator=generator)
    b = A @ torch.ones(M, dtype=F64) + torch.randn(sum(SIZES), dtype=F64, generator=generator)
    return A, b, Shards.of(torch.randperm(sum(SIZES), generator=generator).split(SIZES))


@cache
def problem(l2: float = 0.1) -> LeastSquares:
    A, b, shards = samples()
    return LeastSquares((A, b), shards, WithReplacement(batch=(2,) * N), l2=l2)


@cache
def classes() -> Logistic:
    A, b, shards = samples()
    return Logistic((A, (b > 0).long()), shards, Full(), l2=0.5)


def sums(p: LeastSquares) -> Sums:
    held = [p.shards[i] for i in range(N)]
    return Sums([p.data.features[h].numpy() for h in held], [p.data.targets[h].numpy() for h in held], p.l2)


def path(algorithm: Algorithm[Any], rounds: int, lr: float, network: Any = W) -> Tensor:
    p = problem()
    states = dsgt.iterate(algorithm, p.local(SEED), network, p.start(0), lr)
    return torch.stack([s.x.clone() for s in islice(states, rounds + 1)])


def j(k: int) -> np.ndarray:
    return randomness.integers(Q, SEED, PARTS, torch.arange(N), k).numpy()


def fitted(name: str, network: Any = W) -> Any:
    """The method as it runs on this problem: what is drawn is asked of it."""
    return prepared(method(name), Dense(network), problem().local(SEED))[0]


def edges_of(made: Any) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in made.edges.pairs.edges]


def drawn(made: Any) -> Callable[[int], Any]:
    """The number of an edge, or a node and one of its parts."""
    pairs = made.edges.pairs
    return lambda k: pairs.edge(k) if pairs.ends(k) is not None else made.edges.steps.part(k)


def expected(name: str, rounds: int, network: Any = W) -> list[np.ndarray]:
    f, X0, made = sums(problem()), np.zeros((N, M)), fitted(name, network)
    if name.startswith("dsba"):
        return published.dsba(f, W, X0, 0.05, Q, j, rounds)
    if name == "esdacd":
        return published.esdacd(published.Edges(f, edges_of(made)), made.edges.p, drawn(made), M, rounds)[0]
    return published.adfs(published.Virtual(f, edges_of(made), Q), drawn(made), M, rounds)[0]


EACH = {f"dsba:q={Q}": 0.05, "esdacd": 1.0, f"adfs:q={Q}": 1.0}
"""A method and its lr."""
each = pytest.mark.parametrize("name", EACH)
KITE = metropolis(nx.Graph([(0, 1), (1, 2), (2, 3), (1, 3)]))
"""An edge that nothing goes around has another resistance than those of the triangle."""


@each
def test_it_is_the_published_recursion_on_uneven_shards(name: str):
    found, other = path(method(name), 60, EACH[name]), torch.from_numpy(np.stack(expected(name, 60)))
    assert (found - other).abs().max() < 1e-12
    assert other[-1].norm() > 0.5


@each
def test_real_nodes_and_the_clock_compute_what_the_simulator_does(name: str):
    def act(network: Any) -> Tensor:
        f = problem()[network.node].local(SEED)
        states = dsgt.iterate(method(name), f, network, problem().start(0), EACH[name])
        return torch.stack([s.x.clone() for s in islice(states, 41)])

    found = path(method(name), 40, EACH[name])
    assert (torch.stack(in_threads(W, act, timeout=60), dim=1) - found).abs().max() < 1e-12
    assert (path(method(name), 40, EACH[name], Clocked(W, compute=1.0)) - found).abs().max() < 1e-13


@each
def test_a_resumed_run_is_the_same_bit_for_bit(name: str, tmp_path: Path):
    for p in (problem(), classes()):
        kwargs: dict[str, Any] = {"lr": EACH[name], "every": 10, "seed": SEED}
        folder = tmp_path / type(p).__name__
        whole = dsgt.run(method(name), p, W, rounds=25, **kwargs)
        dsgt.run(method(name), p, W, rounds=13, checkpoint_dir=folder, **kwargs)
        resumed = dsgt.run(method(name), p, W, rounds=25, checkpoint_dir=folder, resume=True, **kwargs)
        assert torch.equal(whole.x, resumed.x)
        assert whole.column("epochs") == resumed.column("epochs")


def solved(p: LeastSquares | Logistic) -> np.ndarray:
    """The optimum, by the solver of others."""
    A, b, _ = samples()
    x = cp.Variable(p.dim)
    if isinstance(p, LeastSquares):
        loss = cp.sum_squares(A.numpy() @ x - b.numpy()) / 2
    else:
        rows = np.hstack([A.numpy(), np.ones((len(A), 1))]) * np.sign(b.numpy())[:, None]
        loss = cp.sum(cp.logistic(-rows @ x))
    goal = loss / len(A) + p.l2 / 2 * cp.sum_squares(x)
    tight = {"tol_gap_abs": 1e-14, "tol_gap_rel": 1e-14, "tol_feas": 1e-14}
    cp.Problem(cp.Minimize(goal)).solve(solver="CLARABEL", **tight)
    found: np.ndarray = x.value
    return found


def test_dsba_reaches_the_optimum_with_a_constant_step_on_uneven_shards():
    p = problem(l2=0.5)
    kwargs = {"rounds": 600, "every": 100, "seed": SEED, "metrics": {"distance": dsgt.metrics.distance}}
    reached = dsgt.run(dsgt.DSBA(q=Q), p, W, lr=0.1, **kwargs).column("distance")
    assert reached[-1] < 1e-10
    gained = [b / a for a, b in pairwise(reached) if b > 1e-12]
    assert len(gained) > 1
    assert max(gained) < 0.1  # in every hundred rounds, down to rounding: linear
    assert min(dsgt.run(dsgt.EXTRA(), p, W, lr=0.1, **kwargs).column("distance")) > 1e-3


@pytest.mark.parametrize(("name", "lr", "rounds"), [("dsba:q=6", 0.5, 300), ("esdacd", 1, 300), ("adfs:q=3", 1, 1500)])
def test_another_solver_finds_the_same_logistic_regression(name: str, lr: float, rounds: int):
    p = classes()
    found = dsgt.run(method(name), p, W, lr=lr, rounds=rounds, seed=SEED, metrics={}).x
    assert np.abs(found.numpy() - solved(p)).max() < 1e-8


def test_on_a_general_graph_edges_are_drawn_as_often_as_their_resistance_asks_and_v_sums_to_zero():
    made = fitted("esdacd", KITE)
    constants = published.Edges(sums(problem()), edges_of(made))
    seen, vs, _ = published.esdacd(constants, made.edges.p, drawn(made), M, 200)
    states = list(islice(dsgt.iterate(dsgt.ESDACD(), problem().local(SEED), KITE, problem().start(0), 1.0), 201))
    assert max(abs(s.x.numpy() - x).max() for s, x in zip(states, seen, strict=True)) < 1e-13
    assert max(abs(s.v.numpy() - v).max() for s, v in zip(states, vs, strict=True)) < 1e-13
    assert max(float(s.v.sum(dim=0).abs().max()) for s in states) < 1e-13
    assert made.edges.R.tolist() == pytest.approx([1, 2 / 3, 2 / 3, 2 / 3])
    assert made.edges.R.sum() == pytest.approx(N - 1)
    assert made.edges.rho == pytest.approx(constants.rho(made.edges.p))
    for other in np.random.default_rng(0).dirichlet(np.ones(4), size=50):
        assert constants.rho(other) < made.edges.rho  # no other probabilities promise more
    counts = np.bincount([made.edges.pairs.edge(k) for k in range(20_000)])
    assert counts / 20_000 == pytest.approx(made.edges.p, abs=0.02)


def test_adfs_on_a_general_graph_is_the_published_recursion_and_all_its_v_sum_to_zero():
    name = f"adfs:q={Q}"
    found = path(method(name), 400, 1.0, KITE)
    made = fitted(name, KITE)
    other, totals = published.adfs(published.Virtual(sums(problem()), edges_of(made), Q), drawn(made), M, 400)
    assert (found - torch.from_numpy(np.stack(other))).abs().max() < 1e-12
    assert np.abs(totals).max() < 1e-12
    p, place = problem(), made.over(Dense(KITE))
    state = made.init(torch.zeros(N, M, dtype=F64), place.at(0))
    ask = Questions(made.asks, p.local(SEED), made.point(state))
    for k in range(400):
        state = made.update(state, ask(state.y, k, 1.0), place.at(k), 1.0)
    assert torch.equal(state.x, found[-1])
    behind = 400 - ask.memory.since  # a virtual node that was not drawn goes on when its turn comes
    gone = [
        [made.asks._gone_on(ask.memory.v[i, u], ask.memory.y[i, u], int(behind[i, u]))[0] for u in range(Q)]
        for i in range(N)
    ]
    total = state.v.sum(dim=0) + sum(v for row in gone for v in row)
    assert total.abs().max() < 1e-12
    assert behind.max() > 50


def test_adfs_needs_no_bound_on_its_steps():
    """Where a part is flatter than the penalty, s is above L, and the weight of its gradient below 0."""
    A, b, shards = samples()
    flat = LeastSquares((0.1 * A, b), shards, Full(), l2=0.5)
    made = prepared(dsgt.ADFS(q=Q), Dense(W), flat.local(0))[0]
    s = made.edges.steps
    assert (s.mu2 * s.rho / (s.p * s.sigma) > s.L).any()
    found = dsgt.run(dsgt.ADFS(q=Q), flat, W, lr=1, rounds=1200, metrics={}).x
    assert (found - flat.optimum).abs().max() < 1e-10


@pytest.mark.parametrize(("name", "rounds"), [("esdacd", 250), (f"adfs:q={Q}", 3000)])
def test_it_is_linear_at_the_predicted_rate(name: str, rounds: int):
    made = fitted(name, KITE)
    rho = made.edges.rho if name == "esdacd" else made.edges.steps.rho
    off = (path(made, rounds, 1.0, KITE) - problem().optimum).flatten(1).norm(dim=1)
    assert off[-1] < 1e-6
    half = rounds // 2
    assert off[half] < 10 * off[0] * (1 - rho) ** (half / 2)  # |x - x*|^2 falls by 1 - rho a round, in the mean
    assert off[-1] < 10 * off[0] * (1 - rho) ** (rounds / 2)
    assert (path(made, 100, 0.1, KITE) - path(made, 100, 1.0, KITE)).norm() > 0.1  # lr is part of it


def test_a_round_sends_two_messages_over_the_drawn_edge_and_none_for_a_part():
    for name in ("esdacd", f"adfs:q={Q}"):
        network, made = Dense(W), fitted(name)
        dsgt.run(method(name), problem(), network, rounds=50, lr=1)
        talks = sum(made.edges.pairs.ends(k) is not None for k in range(50))
        assert (talks == 50) == (name == "esdacd")
        assert network.traffic.bytes == 2 * talks * M * 8


def test_only_who_computes_pays():
    """A conjugate of least squares costs a look at a node's samples; a part's equation and its gradient, two parts."""
    passes = torch.tensor(SIZES, dtype=F64) / 2  # a batch is 2
    for name in ("esdacd", f"adfs:q={Q}"):
        made, paid = fitted(name), torch.zeros(N, dtype=F64)
        for k in range(50):
            ends = made.edges.pairs.ends(k)
            if name == "esdacd":
                paid[list(ends)] += passes[list(ends)]
            elif ends is None:
                i, _ = made.edges.steps.part(k)
                paid[i] += 2 * passes[i] / Q
        epochs = dsgt.run(method(name), problem(), W, rounds=50, lr=1).column("epochs")[-1]
        assert epochs == pytest.approx(float(paid.sum() * 2 / sum(SIZES)))
        clocked = Clocked(W, compute=1.0)
        dsgt.run(method(name), problem(), clocked, rounds=50, lr=1)
        assert clocked.seconds >= paid.max()
        assert clocked.seconds < 0.9 * paid.sum()


def test_of_logistic_regression_who_is_not_asked_is_not_solved_for():
    """The bill of the simulator is about that of real nodes, each of which solves its own equations only."""

    def act(network: Any) -> Tensor:
        found = dsgt.run(dsgt.ESDACD(), classes(), network, rounds=20, lr=1, metrics={"epochs": dsgt.metrics.epochs})
        return torch.tensor(found.column("epochs"), dtype=F64)

    simulated = act(W)
    for found in in_threads(W, act, timeout=60):
        assert (
            found <= simulated + 1e-12
        ).all()  # where the two of an edge are solved together, for the longer of both
        assert (simulated <= 1.25 * found).all()


def test_of_one_part_dsba_is_a_step_to_where_the_exact_gradient_was_taken():
    """q = 1: phi is the last gradient, and x' = p - lr grad f(x')."""
    found = path(dsgt.DSBA(q=1), 5, 0.05)
    p, f = problem(), problem().local(0)
    g0 = f.full(p.start(0).expand(N, -1).clone())
    x1 = f.resolvent(torch.zeros(N, M, dtype=F64), torch.zeros(N, 1).long(), 1, 0.05)
    assert (found[1] - x1).abs().max() < 1e-14
    assert (found[1] + 0.05 * g0).norm() > 1e-4  # which is not the step of EXTRA


def test_dsba_sends_one_vector_to_each_neighbour_and_pays_for_its_solver():
    network = Clocked(W, compute=1.0)
    found = dsgt.run(dsgt.DSBA(q=Q), problem(), network, rounds=21, lr=0.05, seed=SEED)
    assert network.traffic.bytes == 22 * 2 * N * M * 8  # the models are sent once before the first round
    assert found.column("epochs")[-1] == pytest.approx(1 + 21 / Q)  # least squares are solved by one product
    assert network.seconds == pytest.approx(max(SIZES) / 2 * (1 + 21 / Q))  # a batch is 2, and all wait for the slowest
    newton = dsgt.run(dsgt.DSBA(q=Q), classes(), W, rounds=21, lr=0.05, seed=SEED).column("epochs")[-1]
    assert newton > 1 + 3 * 21 / Q


def once(algorithm: Algorithm[Any], p: Any = None) -> dsgt.Result[Any]:
    return dsgt.run(algorithm, p or problem(), W, rounds=1, lr=0.1)


def without_inverses() -> list[Any]:
    A, b, shards = samples()
    labels = (b > 0).long()
    layer = nn.Linear(M, 2, dtype=F64)
    return [Hinge((A, labels), shards, Full(), l2=0.1), Model(layer, (A, labels), shards, Full(), l2=0.1)]


@each
def test_who_cannot_invert_gradients_is_refused_before_any_work(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dsgt.problems.erm.Shard.part", lambda *_: pytest.fail("worked"))
    for p in without_inverses():
        with pytest.raises(TypeError, match=f"{type(p).__name__} does not compute .*LeastSquares"):
            once(method(name), p)
    with pytest.raises(TypeError, match="does not compute"):
        next(dsgt.iterate(method(name), lambda x, k: x, W, torch.zeros(M, dtype=F64), 0.1))


BAD = [
    (f"dsba:q={Q + 1}", 0.1, "q is 7, but node 0 holds 6 samples"),
    ("dsba:q=6,limit=1e-7", 0.1, "takes 9.6e-07 GB"),
    ("adfs:q=6,limit=1e-6", 0.1, "takes 1.92e-06 GB, and the limit is 1e-06 GB"),
    (f"adfs:q={Q + 1}", 0.1, "q is 7, but node 0 holds 6 samples"),
    (f"adfs:q={Q}", 0.0, "ADFS needs functions with a penalty.*l2 is 0: use"),
]


@pytest.mark.parametrize(("name", "l2", "message"), BAD)
def test_bad_input_is_refused_with_what_to_do(name: str, l2: float, message: str):
    with pytest.raises(ValueError, match=message):
        once(method(name), problem(l2))


def test_a_function_that_is_not_strongly_convex_is_refused_with_its_node():
    A, b, shards = samples()
    flat = A.clone()
    flat[shards[2], 0] = 0.0
    p = LeastSquares((flat, b), shards, Full())
    with pytest.raises(ValueError, match="at all nodes, but that of node 2 is not: use l2"):
        once(dsgt.ESDACD(), p)
    with pytest.raises(ValueError, match="without an edge"):
        dsgt.run(dsgt.ESDACD(), LeastSquares((A, b), Shards.of([list(range(len(A)))]), Full()), [[1.0]], rounds=1, lr=1)


def test_pairs_are_drawn_with_the_probabilities_that_were_given():
    ring4 = ring(N)
    half = Pairs(ring4, probabilities=[0.25, 0.0, 0.25, 0.0], seed=1)
    drawn = [half.edge(k) for k in range(4000)]
    assert {None, 0, 2} == set(drawn)
    assert drawn.count(None) / 4000 == pytest.approx(0.5, abs=0.05)
    alone = next(k for k, e in enumerate(drawn) if e is None)
    assert (half.at(alone) == np.eye(N)).all()
    assert half.ends(alone) is None
    mean = sum(half.at(k) for k in range(4000)) / 4000
    assert mean == pytest.approx(half.matrices[0], abs=0.05)
    with pytest.raises(ValueError, match="2 probabilities of sum 1 for 4 edges; expected one for each"):
        Pairs(ring4, probabilities=[0.5, 0.5])
    with pytest.raises(ValueError, match=r"sum 1\.2"):
        Pairs(ring4, probabilities=[0.3] * 4)


@each
def test_its_name_is_understood_and_said_again(name: str):
    assert label(method(name)) == name


@each
def test_an_optimizer_refuses_what_a_training_script_cannot_compute(name: str):
    def act(network: Any) -> str:
        with pytest.raises(ValueError, match="asks for more than gradients") as error:
            dsgt.Optimizer([nn.Parameter(torch.zeros(3))], method(name), network, lr=0.1)
        return str(error.value)

    assert all("use dsgt.run" in said for said in in_threads(W, act, timeout=60))
