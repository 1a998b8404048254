"""Methods that invert gradients: DSBA, which steps to where a resolvent says."""

from __future__ import annotations

from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import cvxpy as cp
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
from dsgt.networks import Clocked, in_threads
from dsgt.oracles.table import PARTS
from dsgt.problems import Hinge, LeastSquares, Logistic, Model
from dsgt.topologies import metropolis, ring
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


def expected(name: str, rounds: int) -> Tensor:
    f, X0 = sums(problem()), np.zeros((N, M))
    paths = {"dsba": lambda: published.dsba(f, W, X0, 0.05, Q, j, rounds)}
    return torch.from_numpy(np.stack(paths[name.partition(":")[0]]()))


EACH = {f"dsba:q={Q}": 0.05}
"""A method and its lr."""
each = pytest.mark.parametrize("name", EACH)


@each
def test_it_is_the_published_recursion_on_uneven_shards(name: str):
    found, other = path(method(name), 60, EACH[name]), expected(name, 60)
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


def test_dsba_and_another_solver_find_the_same_logistic_regression():
    p = classes()
    found = dsgt.run(dsgt.DSBA(q=Q), p, W, lr=0.5, rounds=300, seed=SEED).x
    assert np.abs(found.numpy() - solved(p)).max() < 1e-8


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
        with pytest.raises(TypeError, match=f"{type(p).__name__} does not compute .*LeastSquares, Logistic, and Model"):
            once(method(name), p)
    with pytest.raises(TypeError, match="does not compute"):
        next(dsgt.iterate(method(name), lambda x, k: x, W, torch.zeros(M, dtype=F64), 0.1))


BAD = [(f"dsba:q={Q + 1}", "q is 7, but node 0 holds 6 samples"), ("dsba:q=6,limit=1e-7", "takes 9.6e-07 GB")]


@pytest.mark.parametrize(("name", "message"), BAD)
def test_bad_input_is_refused_with_what_to_do(name: str, message: str):
    with pytest.raises(ValueError, match=message):
        once(method(name))


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
