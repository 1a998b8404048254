"""Models that must lie in half-spaces, boxes and balls, over directed links whose rows alone sum to 1."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dsgt
from dsgt import randomness
from dsgt.algorithms.epigraph_projection import EpigraphProjection
from dsgt.checkpoint import CheckpointError, fingerprint
from dsgt.constraints import Ball, Box, ConvexSet, HalfSpace, feasible_point
from dsgt.data import Full, partition
from dsgt.networks import Dense, in_threads
from dsgt.problems import LeastSquares, constrained
from dsgt.run import iterate
from dsgt.topologies import directed_random, pull_weights
from support.cases import F64, Quadratic, quadratic
from support.edge_reference import epigraph

N, M = 6, 3
PROBLEM = quadratic(N, M)
A = pull_weights(directed_random(N, seed=1))
SETS: dict[str, ConvexSet] = {
    "half-space": HalfSpace([1.0, -2.0, 0.5], 0.3),
    "box": Box(-0.5, 1.0),
    "ball": Ball(0.7),
    "ball elsewhere": Ball(0.7, [1.0, 0.0, -1.0]),
    "point": Ball(0.0, [1.0, 2.0, 3.0]),
}
points = st.lists(st.floats(-10, 10), min_size=3, max_size=3).map(lambda v: torch.tensor(v, dtype=F64))


@pytest.mark.parametrize("name", SETS)
@given(x=points, y=points)
@settings(max_examples=40)
def test_a_projection_is_the_nearest_point_of_a_convex_set(name: str, x: Tensor, y: Tensor) -> None:
    one = SETS[name]
    p, inside = one.project(x), one.project(y)
    assert (one.project(p) - p).norm() < 1e-12
    assert (x - p) @ (inside - p) < 1e-10  # the angle at p to every point of the set is obtuse
    assert one.distance(x).item() == pytest.approx((x - p).norm().item(), abs=1e-12)


def test_projections_are_those_of_the_definitions() -> None:
    x = torch.tensor([3.0, 4.0], dtype=F64)
    assert Ball(1.0).project(x).tolist() == pytest.approx([0.6, 0.8])
    assert Box(-1, 3.5).project(x).tolist() == [3.0, 3.5]
    assert HalfSpace([0, 2], 2).project(x).tolist() == [3.0, 1.0]
    assert HalfSpace([0, 2], 10).project(x).tolist() == [3.0, 4.0]


def test_sets_that_have_a_common_point_give_one() -> None:
    sets = [HalfSpace([1, 1, 0], -1), Ball(2.0), Box(-1.5, 0.5), HalfSpace([0, 0, -1], -0.25)]
    x = feasible_point(sets, 3)
    assert max(one.distance(x).item() for one in sets) < 1e-5
    assert feasible_point([], 3).tolist() == [0, 0, 0]


def test_sets_without_a_common_point_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsgt.constraints.ROUNDS", 200)
    with pytest.raises(ValueError, match=r"no model satisfies all 2 constraints.*loosen"):
        feasible_point([HalfSpace([1, 0, 0], -2), Ball(1.0)], 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HalfSpace([0, 0], 1), "normal of a half-space"),
        (lambda: Box(1, 0), "low = 1 and high = 0"),
        (lambda: Ball(-1), "radius of a ball is -1"),
        (lambda: Ball(math.nan), "radius of a ball is nan"),
        (lambda: EpigraphProjection(value, (), beta=2.0), "beta of EpigraphProjection is 2.0"),
    ],
)
def test_what_is_no_set_is_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def value(i: int, x: Tensor) -> Tensor:
    residual = PROBLEM.A[i] @ x - PROBLEM.b[i]
    return PROBLEM.weight(i) * residual @ residual / (2 * len(residual))


HALVES = tuple(
    tuple(HalfSpace(np.random.default_rng((i, j)).standard_normal(M), 0.2 * i) for j in range(i % 3)) for i in range(N)
)
"""None, one or two for a node."""


def picked(i: int, k: int) -> tuple[np.ndarray, float] | None:
    if not HALVES[i]:
        return None
    one = HALVES[i][int(randomness.integers(len(HALVES[i]), 4, i, k))]
    return np.array(one.normal), one.most


def rate(k: int) -> float:
    return 3 * (k + 1) ** -0.7


@pytest.mark.parametrize("beta", [1.0, 1.6])
def test_equals_the_published_recursion(beta: float) -> None:
    method = EpigraphProjection(value, HALVES, beta, seed=4)
    x0 = torch.randn(N, M, dtype=F64, generator=torch.Generator().manual_seed(0))

    def G(X: np.ndarray, k: int) -> np.ndarray:
        return PROBLEM.full(torch.from_numpy(X), k).numpy()

    def F(i: int, x: np.ndarray) -> float:
        return value(i, torch.from_numpy(x)).item()

    expected = epigraph(G, F, lambda k: A, x0.numpy(), rate, 60, picked, beta)
    found = [s.x.numpy() for s in itertools.islice(iterate(method, PROBLEM.full, A, x0, rate), 61)]
    assert np.abs(np.stack(found) - np.stack(expected)).max() < 1e-11  # 60 rounds of round-off at size 100


def test_a_value_below_its_guess_is_left_alone() -> None:
    method, x, g = EpigraphProjection(value, [()] * N), torch.ones(N, M, dtype=F64), torch.ones(N, M, dtype=F64)
    guessed = method.init(x, Dense(A).at(0))._replace(t=torch.full((N, N), 1e6, dtype=F64))
    found = method.update(guessed, g, Dense(A).at(0), 6.0)
    assert (found.x - x).abs().max() < 1e-15
    assert (found.t - (1e6 - 6.0 / N)).abs().max() < 1e-9


def test_real_nodes_do_what_the_simulator_does() -> None:
    method = EpigraphProjection(value, HALVES, seed=4)

    def act(network: dsgt.core.Network) -> Tensor:
        i = network.node

        def grad(x: Tensor, k: int) -> Tensor:
            return PROBLEM.node_gradient(i, x)

        return next(itertools.islice(iterate(method, grad, network, torch.zeros(M, dtype=F64), rate), 25, None)).x

    states = iterate(method, PROBLEM.full, A, torch.zeros(M, dtype=F64), rate)
    expected = next(itertools.islice(states, 25, None)).x
    assert (torch.stack(in_threads(A, act)) - expected).abs().max() < 1e-11


def test_unbalanced_links_lead_to_the_true_optimum_and_not_to_the_weighted_one() -> None:
    """D-PSGD with the same links goes to where the nodes that are heard more want to."""
    unbalanced = 0.5 * np.eye(N) + 0.3 * np.roll(np.eye(N), 1, axis=1)
    unbalanced[:, 0] += 0.2
    heard = np.linalg.matrix_power(unbalanced, 200)[0] * N
    H = sum(w * h for w, h in zip(heard, PROBLEM.H, strict=True))
    weighted = torch.linalg.solve(H, sum(w * c for w, c in zip(heard, PROBLEM.c, strict=True)))
    assert (weighted - PROBLEM.optimum).norm() > 0.8

    states = iterate(EpigraphProjection(value, [()] * N), PROBLEM.full, unbalanced, torch.zeros(M, dtype=F64), rate)
    early, late = ((s.x - PROBLEM.optimum).norm(dim=1).max() for s in itertools.islice(states, 1000, 4001, 3000))
    assert late < 0.45
    assert late < 0.5 * early


def least_squares(problem: Quadratic) -> LeastSquares:
    data = (torch.cat(problem.A), torch.cat(problem.b))
    owners = torch.repeat_interleave(torch.arange(N), torch.tensor(problem.sizes))
    return LeastSquares(data, partition.by_column(owners), Full(), l2=0.1)


def test_a_problem_with_constraints_of_every_kind_comes_near_its_solution() -> None:
    """Half-spaces that single nodes know, a box and a ball that others do, against a solver that knows all."""
    problem = least_squares(PROBLEM).full()
    sets = [[HalfSpace([1, 0, 1], 0.5)], [Box(-2, 1.0)], [Ball(1.5)], [], [HalfSpace([0, 1, 0], 0.5), Box(-3, 2)], []]
    method = constrained(problem, sets)
    everything = [one for own in sets for one in own]
    solved = scipy.optimize.minimize(
        lambda x: problem.loss(torch.from_numpy(x)).item(),
        np.zeros(M),
        method="SLSQP",
        constraints={
            "type": "ineq",
            "fun": lambda x: np.array([0.5 - x[0] - x[2], 0.5 - x[1], 1.5**2 - x @ x, *(1 - x), *(x + 2)]),
        },
        options={"ftol": 1e-12},
    )
    expected = torch.from_numpy(solved.x)
    assert max(one.distance(expected).item() for one in everything) < 1e-6
    assert (problem.optimum - expected).norm() > 0.3  # the constraints matter
    states = iterate(method, problem.oracle(0), A, torch.zeros(M, dtype=F64), rate)
    x = next(itertools.islice(states, 3000, None)).x
    assert (x - expected).norm(dim=1).max() < 0.15


def test_the_values_of_a_problem_are_those_whose_gradients_it_gives() -> None:
    problem = least_squares(PROBLEM).full()
    method, oracle = constrained(problem, []), problem.oracle(0)
    x = torch.ones(N, M, dtype=F64)
    for i in range(N):
        own = x[i].clone().requires_grad_()
        method.value(i, own).backward()
        assert (own.grad - oracle(x, 0)[i]).abs().max() < 1e-12


def test_sets_for_another_number_of_nodes_are_refused() -> None:
    problem = least_squares(PROBLEM)
    with pytest.raises(ValueError, match="2 lists of sets for 6 nodes"):
        constrained(problem, [[Ball(1.0)], []])
    with pytest.raises(ValueError, match="2 lists of sets for 6 nodes"):
        constrained(problem, [Ball(1.0), [Ball(1.0)]])
    assert len(constrained(problem, [Ball(1.0)]).sets) == N


def test_a_run_with_constraints_resumes_and_notices_other_ones(tmp_path) -> None:
    """A function has another address in every process, and a node's sets are not what nodes agree on."""
    problem = least_squares(PROBLEM).full()

    def go(sets: list[ConvexSet], rounds: int, **options: object) -> Tensor:
        return dsgt.run(constrained(problem, sets), problem, A, rounds=rounds, lr=rate, **options).x

    go([Ball(1.0)], 5, checkpoint_dir=tmp_path)
    assert torch.equal(go([Ball(1.0)], 8, checkpoint_dir=tmp_path, resume=True), go([Ball(1.0)], 8))
    with pytest.raises(CheckpointError, match="method"):
        go([Ball(2.0)], 8, checkpoint_dir=tmp_path, resume=True)
    assert "Ball" not in fingerprint.method(constrained(problem, [Ball(1.0)]), common=True)
