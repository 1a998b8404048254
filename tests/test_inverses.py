"""Conjugates and resolvents, which invert gradients, against solvers of others; and who has none."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import dsgt
from dsgt.data.sampling import Full
from dsgt.data.shards import Shards
from dsgt.problems import AbsoluteDeviations, Hinge, Lasso, LeastSquares, Logistic, Model, lbfgs, newton
from dsgt.problems.erm import EmpiricalRisk

F64 = torch.float64
SIZES = [6, 9, 7, 12]


def shards() -> Shards:
    ends = np.cumsum(SIZES)
    order = np.random.default_rng(0).permutation(sum(SIZES))
    return Shards.of([order[e - n : e].tolist() for e, n in zip(ends, SIZES, strict=True)])


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def real(m: int = 5) -> tuple[Tensor, Tensor]:
    A = drawn(sum(SIZES), m)
    return A, A @ drawn(m, seed=1) + drawn(sum(SIZES), seed=2)


def labels(classes: int) -> tuple[Tensor, Tensor]:
    return drawn(sum(SIZES), 4), torch.arange(sum(SIZES)) % classes


def linear_model() -> Model:
    layer = nn.Linear(4, 3, dtype=F64)
    return Model(layer, labels(3), shards(), Full(), l2=0.1, strategy="loop", convex=True)


MADE = {
    "least squares": lambda: LeastSquares(real(), shards(), Full(), l2=0.1),
    "least squares, wide": lambda: LeastSquares(real(15), shards(), Full(), l2=0.1),
    "least squares without a penalty": lambda: LeastSquares(real(3), shards(), Full()),
    "two classes": lambda: Logistic(labels(2), shards(), Full(), l2=0.1),
    "three classes": lambda: Logistic(labels(3), shards(), Full(), l2=0.1),
    "a torch module": linear_model,
}
each = pytest.mark.parametrize("name", MADE)


@each
@torch.no_grad()
def test_a_conjugate_is_where_the_gradient_is_u_and_a_resolvent_where_the_step_ends(name: str):
    problem = MADE[name]()
    f, u = problem.local(0), drawn(4, problem.dim, seed=3)
    x = f.conjugate(u, torch.zeros_like(u))
    assert (f.full(x) - u).norm() < 1e-11
    for q in (1, 4, 6):
        j = torch.tensor([[0], [q - 1], [q // 2], [0]])
        x = f.resolvent(u, j, q, 0.7)
        assert (x + 0.7 * f.part(x, j, q) - u).norm() < 1e-11
        x = f.inverse(u, j, q, 2.0, -0.01, u)  # a negative weight, as ADFS has it
        assert (2 * x - 0.01 * (f.part(x, j, q) - problem.l2 * x) - u).norm() < 1e-11


@each
@torch.no_grad()
def test_who_gives_its_gradient_no_weight_is_not_asked_and_the_others_find_the_same(name: str):
    problem = MADE[name]()
    f, u, j = problem.local(0), drawn(4, problem.dim, seed=3), torch.tensor([[0], [1], [2], [3]])
    all_asked = f.inverse(u, j, 4, 2.0, 0.5, u)
    some = f.inverse(u, j, 4, 2.0, torch.tensor([[0.5], [0.0], [0.5], [0.0]], dtype=F64), u)
    assert (some[[0, 2]] - all_asked[[0, 2]]).norm() < 1e-12
    assert torch.allclose(some[[1, 3]], u[[1, 3]] / 2, rtol=1e-14, atol=0)


@each
@torch.no_grad()
def test_a_node_alone_finds_what_the_simulator_finds_for_it(name: str):
    problem = MADE[name]()
    f, u = problem.local(0), drawn(4, problem.dim, seed=3)
    x = f.conjugate(u, torch.zeros_like(u))
    j = torch.tensor([[3], [0], [2], [1]])
    y = f.resolvent(u, j, 4, 0.3)
    for i in range(4):
        own = problem[i].local(0)
        assert (own.conjugate(u[i], torch.zeros_like(u[i])) - x[i]).norm() < 1e-12
        assert (own.resolvent(u[i], j[i], 4, 0.3) - y[i]).norm() < 1e-12
        assert torch.equal(own.convexity(), f.convexity()[i])


@pytest.mark.parametrize("name", ["least squares", "two classes", "three classes"])
def test_scipy_finds_the_same_conjugate(name: str):
    problem = MADE[name]()
    u = 0.3 * drawn(4, problem.dim, seed=3)
    x = problem.local(0).conjugate(u, torch.zeros_like(u))
    for i in range(4):

        def value(z: np.ndarray, i: int = i) -> np.ndarray:
            at = torch.from_numpy(z)
            g = problem.weights[i] * (problem[i].gradient(at) - problem.l2 * at) + problem.l2 * at - u[i]
            return g.numpy()

        found = scipy.optimize.root(value, np.zeros(problem.dim), tol=1e-13).x
        assert np.abs(found - x[i].numpy()).max() < 1e-8


@pytest.mark.parametrize("name", ["least squares", "least squares, wide", "least squares without a penalty"])
def test_the_curvature_of_least_squares_is_exact(name: str):
    problem = MADE[name]()
    f = problem.local(0)
    for i, shard in enumerate(problem.places):
        A = problem.rows[shard]
        eigenvalues = torch.linalg.eigvalsh(4 / sum(SIZES) * A.mT @ A)
        assert abs(float(f.convexity()[i, 0]) - float(eigenvalues[0].clamp(min=0)) - problem.l2) < 1e-12
        assert abs(float(f.smoothness(1)[i, 0]) - float(eigenvalues[-1])) < 1e-12
    assert torch.allclose(problem.local(0).smoothness(1)[:, 0] + problem.l2, problem.constants.L_i)


@pytest.mark.parametrize("name", ["two classes", "three classes"])
def test_no_part_of_logistic_regression_is_more_curved_than_it_says(name: str):
    problem = MADE[name]()
    f = problem.local(0)
    for q in (1, 3):
        for j in range(q):
            which = torch.full((4, 1), j)

            def part(x: Tensor, which: Tensor = which, q: int = q) -> Tensor:
                return f.part(x, which, q) - problem.l2 * x

            for scale in (0.0, 1.0):
                x, v = scale * drawn(4, problem.dim), drawn(4, problem.dim, seed=5)
                bent = (part(x + 1e-6 * v) - part(x - 1e-6 * v)).norm(dim=1) / 2e-6 / v.norm(dim=1)
                assert (bent <= f.smoothness(q)[:, j] * (1 + 1e-6)).all()
    assert torch.equal(f.convexity(), torch.full((4, 1), 0.1, dtype=F64))


def test_a_warm_start_saves_gradients_and_the_bill_counts_them():
    f = MADE["two classes"]().local(0)
    u = drawn(4, 5, seed=3)
    x = f.conjugate(u, torch.zeros_like(u))
    cold = f.bill()
    f.conjugate(u + 1e-6, x)
    assert torch.as_tensor(2 * f.bill() < cold).all()


def test_in_float32_a_conjugate_is_as_good_as_float32():
    A, t = labels(2)
    f = Logistic((A.float(), t), shards(), Full(), l2=0.1).local(0)
    u = drawn(4, 5).float()
    assert (f.full(f.conjugate(u, torch.zeros_like(u))) - u).norm() < 1e-4


@pytest.mark.parametrize(
    "problem",
    [
        Hinge(labels(2), shards(), Full(), l2=0.1),
        AbsoluteDeviations(real(), shards(), Full(), l2=0.1),
        Lasso(real(), shards(), Full(), l1=0.1, l2=0.1),
        Model(nn.Linear(4, 3, dtype=F64), labels(3), shards(), Full(), l2=0.1),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_who_has_no_inverse_says_who_has(problem: EmpiricalRisk):
    f, u = problem.local(0), torch.zeros(4, problem.dim, dtype=F64)
    for ask in (lambda: f.conjugate(u, u), lambda: f.resolvent(u, torch.zeros(4, 1).long(), 2, 0.1), f.convexity):
        with pytest.raises(TypeError, match=f"{type(problem).__name__} does not compute .*LeastSquares, Logistic, and"):
            ask()


def test_a_bare_gradient_has_no_inverse_either():
    f = dsgt.Local(lambda x, k: x, torch.arange(2)[:, None])
    with pytest.raises(TypeError, match="does not compute conjugates"):
        f.conjugate(torch.zeros(2, 3), torch.zeros(2, 3))


def test_more_parts_than_samples_are_refused():
    f = MADE["two classes"]().local(0)
    with pytest.raises(ValueError, match="q is 7, but node 0 holds 6 samples"):
        f.resolvent(torch.zeros(4, 5, dtype=F64), torch.zeros(4, 1).long(), 7, 0.1)


def test_a_module_that_is_not_strongly_convex_but_said_to_be_is_found_out():
    problem = Model(nn.Linear(4, 3, dtype=F64), labels(3), shards(), Full(), strategy="loop", convex=True)
    u = 100 * drawn(4, problem.dim)  # without l2 no gradient is as large
    with pytest.raises(ArithmeticError, match="not smooth and strongly convex"):
        problem.local(0).conjugate(u, torch.zeros_like(u))


@given(seed=st.integers(0, 1000), n=st.integers(1, 4), m=st.integers(1, 6), scale=st.floats(1e-3, 1e3))
@settings(max_examples=15, deadline=None)
def test_both_solvers_solve_rows_of_positive_systems(seed: int, n: int, m: int, scale: float):
    B, b = drawn(n, m, m, seed=seed), drawn(n, m, seed=seed + 1)
    H = scale * (B @ B.mT + 0.1 * torch.eye(m, dtype=F64))

    def times(v: Tensor) -> Tensor:
        return (H @ v[..., None])[..., 0]

    def residual(x: Tensor) -> Tensor:
        return times(x) + x**3 - b

    for x in (
        newton.solve(torch.zeros_like(b), residual, lambda x: lambda v: times(v) + 3 * x**2 * v, goal=1e-12),
        lbfgs.solve(torch.zeros_like(b), residual, goal=1e-12),
    ):
        assert residual(x).norm(dim=-1).max() < 1e-10


def test_a_row_is_solved_as_if_the_others_were_not_there():
    problem = MADE["two classes"]()
    f, u = problem.local(0), drawn(4, 5, seed=3)
    start = torch.zeros_like(u)
    hard = torch.cat([u[:1], 1e3 * u[1:]])
    assert torch.equal(f.conjugate(u, start)[0], f.conjugate(hard, start)[0])


@torch.no_grad()
def test_the_values_of_the_non_smooth_problems_are_those_of_their_formulas():
    A, t = real()
    x = cp.Variable(5)
    lasso = Lasso((A, t), shards(), Full(), l1=0.2, l2=0.1)
    cp.Problem(
        cp.Minimize(
            cp.sum_squares(A.numpy() @ x - t.numpy()) / 2 / len(A) + 0.2 * cp.norm1(x) + 0.05 * cp.sum_squares(x)
        )
    ).solve(solver="CLARABEL")
    assert stays_above(lasso, torch.from_numpy(x.value))
    deviations = AbsoluteDeviations((A, t), shards(), Full())
    found = cp.Problem(cp.Minimize(cp.norm1(A.numpy() @ x - t.numpy()) / len(A))).solve(solver="CLARABEL")
    assert abs(float(deviations.loss(deviations.optimum)) - found) < 1e-8
    assert (deviations.optimum - torch.from_numpy(x.value)).norm() < 1e-6
    assert stays_above(deviations, deviations.optimum)
    B, y = labels(2)
    x = cp.Variable(5)
    hinge = Hinge((B, y), shards(), Full(), l2=0.1, test=(B, y))
    inputs = np.hstack([B.numpy(), np.ones((len(B), 1))])
    signs = 2 * y.numpy() - 1
    cp.Problem(
        cp.Minimize(cp.sum(cp.pos(1 - cp.multiply(signs, inputs @ x))) / len(B) + 0.05 * cp.sum_squares(x))
    ).solve(solver="CLARABEL")
    best = torch.from_numpy(x.value)
    assert stays_above(hinge, best)
    assert float(hinge.accuracy(best)) == pytest.approx(np.mean((inputs @ x.value > 0) == (y.numpy() == 1)))


def stays_above(problem: EmpiricalRisk, best: Tensor) -> bool:
    """Whether nothing near it is lower, and every subgradient g at x says F(best) >= F(x) + g'(best - x)."""
    lowest = problem.loss(best)
    around = best + 0.1 * drawn(200, problem.dim)
    g = problem.gradient(around)
    own = problem.local(0).full(around[:4].contiguous())
    assert torch.allclose(problem.oracle(0)(around[:4].contiguous(), 0), own)
    assert torch.allclose(problem.local(0).full(around[:1].repeat(4, 1)).mean(dim=0), g[0])
    below = problem.loss(around) + (g * (best - around)).sum(dim=-1)
    return bool((problem.loss(around) >= lowest - 1e-9).all() and (below <= lowest + 1e-9).all())


def test_a_weighted_median_is_the_optimum_of_absolute_deviations():
    a, t = torch.tensor([1.0, 2.0, 5.0, 1.5, 1.0], dtype=F64), torch.tensor([0.0, 1.0, 2.0, 3.0, 9.0], dtype=F64)
    problem = AbsoluteDeviations((a[:, None], a * t), Shards.of([[0, 1], [2, 3, 4]]), Full())
    assert float(problem.optimum) == pytest.approx(2.0)  # half of the weight, 10.5, lies at 2 or below, and at or above


@pytest.mark.parametrize("l1", [0.0, -1.0, float("inf"), float("nan")])
def test_a_lasso_without_a_penalty_is_refused(l1: float):
    with pytest.raises(ValueError, match="use LeastSquares"):
        Lasso(real(), shards(), Full(), l1=l1)
