"""Stability windows, speedup, estimates, and what is refused."""

from __future__ import annotations

import math
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dsgt
from dsgt import data
from dsgt.core import Done, Eigenvalues, Mix, Pending, Polynomial
from dsgt.networks import Cycle, Dense
from dsgt.problems import LeastSquares, Logistic, Model
from dsgt.problems.base import GradientFunction, Problem
from dsgt.theory import Constants, Link, corollary_1, corollary_2, estimate, speedup, theorem_1, theorem_2
from dsgt.theory.curvature import power_iteration
from dsgt.theory.measured import measured_limit
from dsgt.theory.stability import spectral_radius, window
from dsgt.topologies.weights import metropolis
from support.cases import CASES, graph
from support.theory_problems import directed_ring

F64 = torch.float64
WEIGHTS = {
    "path": metropolis(nx.path_graph(7)),
    "even ring": metropolis(nx.cycle_graph(8)),
    "bipartite": metropolis(nx.complete_bipartite_graph(3, 3)),
    "lazy": (np.eye(8) + metropolis(nx.cycle_graph(8))) / 2,
    "almost periodic": np.array([[0.1, 0.9], [0.9, 0.1]]),
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.limit])
def test_the_closed_forms_are_where_a_root_leaves_the_unit_circle(name: str, weights: str):
    """And they agree with the formulas of the table of cases, which test_stability checks with runs."""
    method, W = type(CASES[name].algorithm), WEIGHTS[weights]
    w, found = np.linalg.eigvalsh(W), window(method, W)
    if found.low > 0:
        assert w[0] <= CASES[name].algorithm.needs.floor
        assert spectral_radius(method, w, 0.999 * found.low) > 1
        assert spectral_radius(method, w, 1.001 * found.low) < 1
    assert spectral_radius(method, w, 0.999 * found.high) < 1
    assert spectral_radius(method, w, 1.001 * found.high) > 1
    assert found.high == pytest.approx(CASES[name].limit(w[0]), rel=1e-4)  # a crossing is found to 4 digits


class Momentum(dsgt.DSGT):
    """DSGT with heavy ball: a polynomial of order three, and one that it need not declare."""

    beta = 0.5

    def init(self, x: Tensor, mix: Mix) -> Heavy:
        zero = torch.zeros_like(x)
        return Heavy(x, zero, Done(zero), zero)

    def update(self, s: Heavy, g: Tensor, mix: Mix, lr: float) -> Heavy:
        y = g + (s.Wy.wait() - s.g)
        m = self.beta * s.m + y
        return Heavy(mix(s.x - lr * m), g, mix.start(y), mix(m))


class Heavy(NamedTuple):
    x: Tensor
    g: Tensor
    Wy: Pending
    m: Tensor


class DeclaredMomentum(Momentum):
    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial:
        b = self.beta
        return 1, -(2 + b - c) * w, (1 + 2 * b) * w**2 - c * w, -b * w**3


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_polynomial_of_order_three_tells_where_runs_start_to_grow(weights: str):
    found = window(DeclaredMomentum, WEIGHTS[weights])
    assert "exact" in found.how
    measured = measured_limit(Momentum(), Dense(WEIGHTS[weights]))
    assert found.high == pytest.approx(measured, rel=0.05)  # slow growth hides


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.limit])
def test_the_crossings_of_a_polynomial_are_its_closed_form(name: str, weights: str):
    """A method that gives its polynomial itself has no closed form, so that its roots are looked at."""
    method, W = type(CASES[name].algorithm), WEIGHTS[weights]
    own = type("Own", (method,), {"polynomial": lambda self, w, c: method.polynomial(self, w, c)})
    found, closed = window(own, W), window(method, W)
    assert (found.low, found.high) == pytest.approx((closed.low, closed.high), rel=1e-4)  # four digits


@pytest.mark.parametrize("name", dsgt.ALGORITHMS)
def test_a_declared_polynomial_is_that_of_the_method(name: str):
    """Seen by runs, which measure to 1 percent, and where growth is slow to 5."""
    method, W = dsgt.ALGORITHMS[name](), WEIGHTS["lazy"]
    assert window(method, W).high == pytest.approx(measured_limit(method, Dense(W)), rel=0.05)


def test_without_a_polynomial_the_limit_is_measured_and_said_to_be():
    found = window(Momentum, WEIGHTS["path"])
    assert "measured" in found.how
    assert found.high == measured_limit(Momentum(), Dense(WEIGHTS["path"]))
    with pytest.raises(ValueError, match="no polynomial"):
        spectral_radius(Momentum, np.ones(1), 0.1)


def test_another_update_does_not_inherit_the_polynomial():
    w = np.linspace(-1, 1, 5)
    assert dsgt.DSGT().polynomial(w, 0.1) is not None
    assert Momentum().polynomial(w, 0.1) is None
    assert type("Renamed", (dsgt.DSGT,), {})().polynomial(w, 0.1) is not None


def test_the_limit_of_averaged_steps_may_be_far_above_2():
    """x' = W (x - lr m) with m = 0.9 m + 0.1 g bears lr L < 2 (1 + 0.9) / (1 - 0.9) = 38."""

    class Averaged(Momentum):
        def update(self, s: Heavy, g: Tensor, mix: Mix, lr: float) -> Heavy:
            m = 0.9 * s.m + 0.1 * g
            return Heavy(mix(s.x - lr * m), g, s.Wy, m)

    assert window(Averaged, np.full((3, 3), 1 / 3)).high == pytest.approx(38, rel=0.02)  # measured to 1 percent


def test_the_limit_of_a_directed_network_is_where_runs_start_to_grow():
    W = directed_ring(7)
    assert window(dsgt.DSGT, W).high == pytest.approx(
        measured_limit(dsgt.DSGT(), Dense(W)), rel=0.05
    )  # slow growth hides
    assert window(dsgt.GNSD, W).high == pytest.approx(measured_limit(dsgt.GNSD(), Dense(W)), rel=0.05)


def test_the_limit_of_a_changing_network_is_measured():
    even, odd = np.kron(np.eye(2), np.full((2, 2), 0.5)), np.eye(4)
    odd[1:3, 1:3] = 0.5
    found = window(dsgt.DSGT, Cycle([even, odd]))
    assert 0.1 < found.high <= 2.02
    assert "measured" in found.how


def test_equal_shards_of_one_distribution_speed_up_linearly():
    found = speedup([50] * 8, [1.0] * 8, 1.0)
    assert found.total == found.ideal == 8


def test_uneven_shards_wait_for_the_largest_and_uneven_curvature_shortens_the_steps():
    assert speedup([10, 10, 20], [1.0] * 3, 1.0).balance == 2
    # all curvature at one of n nodes: the paper's example without any speedup
    assert speedup([10] * 4, [4.0, 0.0, 0.0, 0.0], 1.0).ideal == 1


def test_messages_cost_speedup_unless_they_hide_behind_the_gradient():
    equal = ([100] * 4, [1.0] * 4, 1.0)
    one = Link(latency=0.0, per_vector=50.0, neighbours=2, sends=1, hidden=0)
    tracked = Link(latency=0.0, per_vector=50.0, neighbours=2, sends=2, hidden=1)
    slow = Link(latency=0.0, per_vector=100.0, neighbours=2, sends=2, hidden=1)
    assert speedup(*equal, link=one).total == pytest.approx(2)
    assert speedup(*equal, link=tracked).total == pytest.approx(2)  # the tracker's message just fits
    assert speedup(*equal, link=slow).total == pytest.approx(1)  # 100 hidden, 300 waited for
    assert speedup([100], [1.0], 1.0, link=slow).total == 1


def squares(sizes: list[int], sampling, *, seed: int = 0) -> LeastSquares:
    samples, shards = data.synthetic.least_squares(sizes, 4, seed=seed, dtype=F64)
    return LeastSquares(samples, shards, sampling)


class Wrapped(Problem):
    """A problem that shows nothing but its gradients, as a user's own would."""

    def __init__(self, inner: LeastSquares) -> None:
        self.inner = inner
        self.nodes, self.dim, self.samples = inner.nodes, inner.dim, inner.samples
        self.epochs_per_round = inner.epochs_per_round

    def __getitem__(self, i: int) -> Problem:
        return Wrapped(self.inner[i])

    def start(self, seed: int) -> Tensor:
        return self.inner.start(seed)

    def oracle(self, seed: int) -> GradientFunction:
        return self.inner.oracle(seed)

    def loss(self, x: Tensor) -> Tensor:
        return self.inner.loss(x)

    def gradient(self, x: Tensor) -> Tensor:
        return self.inner.gradient(x)


W6 = metropolis(graph(6))


def test_power_iteration_finds_the_closed_form_on_a_problem_that_shows_only_gradients():
    exact = squares([9, 20, 5, 30, 12, 7], data.Full())
    found, known = estimate(Wrapped(exact), W6), estimate(exact, W6)
    assert found.L_i.numpy() == pytest.approx(known.L_i.numpy(), rel=0.05)  # from below: close eigenvalues
    assert pytest.approx(known.L_F, rel=0.05) == found.L_F
    assert found.zeta2 > 0
    assert known.sigma2.value < 1e-20
    assert (known.L_met, known.L_noise) == (known.L, 0)
    assert pytest.approx(known.L, rel=0.05) == found.L_met


def test_the_variances_are_those_of_sampling_with_replacement():
    """(n N_i/N)^2 / b_i times the mean squared deviation of a sample's gradient, at the start."""
    problem = squares([20, 40, 10, 30, 16, 24], data.WithReplacement(0.2))
    found = estimate(problem, W6, draws=400)
    x = problem.start(0)
    expected = 0.0
    for i, shard in enumerate(problem.places):
        A, t = problem.rows[shard], problem.targets[shard]
        r = A * (A @ x - t)[:, None]
        spread = (r - r.mean(dim=0)).square().sum(dim=1).mean()
        expected += float(problem.weights[i] ** 2 * spread / problem.batch[i])
    assert found.sigma2.low <= expected <= found.sigma2.high or found.sigma2.value == pytest.approx(expected, rel=0.05)
    assert found.lam > 0  # least squares: the variance falls on the way to the optimum
    assert found.gap == pytest.approx(float(problem.loss(x) - problem.loss(problem.optimum)))


def test_the_variance_of_one_sample_of_the_union_is_within_and_between_the_shards():
    problem = squares([20, 40, 10, 30, 16, 24], data.WithReplacement(0.2))
    A, t, x = problem.rows, problem.targets, problem.optimum
    r = A * (A @ x - t)[:, None]
    expected = float((r - r.mean(dim=0)).square().sum(dim=1).mean())
    assert estimate(problem, W6, draws=400).sigma2_sample == pytest.approx(expected, rel=0.1)  # 400 draws
    assert estimate(problem.full(), W6).sigma2_sample is None


def test_the_confidence_interval_narrows_with_the_square_root_of_the_draws():
    problem = squares([20] * 6, data.WithReplacement(0.2))
    few, many = (estimate(problem, W6, draws=d).sigma2 for d in (50, 800))
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(4, rel=0.3)


def test_logistic_constants_are_upper_bounds_of_the_curvature():
    samples, shards = data.synthetic.classification([20, 30, 10, 25, 15, 20], 4, classes=3, seed=1, dtype=F64)
    problem = Logistic(samples, shards, data.Full(), l2=0.01)
    found = estimate(problem, W6)
    full = problem.oracle(0)
    for x in (problem.start(0), problem.optimum):
        local = power_iteration(lambda X: full(X, 0), x.expand(6, -1).contiguous())
        assert (local <= found.L_i * (1 + 1e-6)).all()
    assert found.mu == 0.01


def test_models_get_local_constants_and_say_so():
    samples, shards = data.synthetic.classification([20, 30, 10, 25, 15, 20], 4, classes=3, seed=1, dtype=F64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    problem = Model(module, samples, shards, data.WithReplacement(0.5), strategy="loop")
    found = estimate(problem, W6, draws=8)
    x = problem.start(0)
    hessian = torch.stack(
        [problem.gradient(x + e) - problem.gradient(x - e) for e in 1e-5 * torch.eye(len(x), dtype=F64)]
    )
    top = torch.linalg.eigvalsh((hessian + hessian.T) / 4e-5).abs().max()
    assert pytest.approx(float(top), rel=0.05) == found.L_F
    assert found.distance2 is None
    assert any("local" in a for a in found.assumptions)
    assert any("upper bound" in a for a in found.assumptions)
    with pytest.raises(ValueError, match="F never falls below"):
        estimate(problem, W6, draws=8, lowest=100.0)


GOOD = {"n": 4, "L": 1.0, "rho": 0.5, "sigma2": 1.0, "gap": 1.0}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"lam": -0.1}, "lam >= 0"),
        ({"rho": 1.0}, "rho < 1"),
        ({"rho": -0.1}, "rho < 1"),
        ({"rho": math.nan}, "rho < 1"),
        ({"L": 0.0}, "above 0"),
        ({"n": 0}, "at least one node"),
        ({"eta": 0.0}, "0 < eta <= 1"),
        ({"sigma2": -1.0}, "at least 0"),
        ({"gap": math.inf}, "finite"),
    ],
)
def test_wrong_constants_are_refused(wrong: dict, says: str):
    with pytest.raises(ValueError, match=says):
        Constants(**(GOOD | wrong))


def test_wrong_rounds_steps_and_powers_are_refused():
    c = Constants(**GOOD)
    step = c.largest_step
    for call in (lambda: theorem_1(c, step, 0), lambda: corollary_2(c, 0), lambda: corollary_1(c, step, 0.5, 0)):
        with pytest.raises(ValueError, match="K is 0"):
            call()
    for p in (0.49, 1.01, -1.0, math.nan):
        with pytest.raises(ValueError, match=r"0.5 <= p <= 1"):
            corollary_1(c, step, p, 10)
    with pytest.raises(ValueError, match="infinite at K = 1"):
        corollary_1(c, step, 0.5, 1)
    for bad in (0.0, -step, 1.001 * step, math.nan):
        with pytest.raises(ValueError, match="Theorem 1 holds for"):
            theorem_1(c, bad, 10)
    with pytest.raises(ValueError, match="never rise"):
        theorem_1(c, lambda k: step * (k + 1) / 10, 5)
    with pytest.raises(ValueError, match="distance2"):
        theorem_2(c, step, 10)
    with pytest.raises(ValueError, match="needs K >="):
        corollary_2(c, 2)


def test_corollary_2_without_noise_is_its_limit_case():
    """sigma_s -> 0: the largest step, no variance term, and half the bound after twice the rounds."""
    c = Constants(**(GOOD | {"sigma2": 0.0}))
    once, twice = corollary_2(c, 50), corollary_2(c, 100)
    assert once.step == c.largest_step
    assert once.bound.variance == once.bound.network == 0
    assert once.simple == pytest.approx(2 * twice.simple)
    assert corollary_2(Constants(**(GOOD | {"gap": 0.0})), 10).bound.optimisation == 0


def test_one_node_is_plain_sgd_and_needs_no_network():
    c = Constants(n=1, L=2.0, rho=0.0, sigma2=1.0, gap=1.0)
    assert c.largest_step == 0.5
    assert theorem_1(c, 0.1, 10).network == 0
    assert estimate(squares([30], data.WithReplacement(0.5)), [[1.0]]).rho == 0


def test_a_network_that_the_theorems_do_not_cover_is_refused():
    problem = squares([5, 5], data.Full())
    for W, says in (
        ([[0.9, 0.5], [0.1, 0.5]], "row"),
        ([[1.0, 0.0], [0.0, 1.0]], "connected"),
        ([[0.0, 1.0], [1.0, 0.0]], "rho"),
    ):
        with pytest.raises(ValueError, match=says):
            estimate(problem, W)
    with pytest.raises(ValueError, match="2 nodes and the network 6"):
        estimate(problem, W6)


@pytest.mark.parametrize("weights", [*WEIGHTS, "directed ring"])
def test_four_fifths_of_the_limit_for_equal_quadratics_is_stable_for_unequal_ones(weights: str):
    """The margin of advise(). X' = W (X - lr Y), Y' = W Y + H (X' - X): all roots but the m unit ones lie inside."""
    W = directed_ring(6) if weights == "directed ring" else WEIGHTS[weights]
    n, m = len(W), 2
    rng = np.random.default_rng(0)
    mix, eye = np.kron(W, np.eye(m)), np.eye(n * m)
    for kind in range(30):
        A = rng.standard_normal((n, 1 + kind % 3, m)) * (rng.random((n, 1, 1)) ** (kind % 5))
        H = np.einsum("nki,nkj->nij", A, A)
        lr = 0.8 * window(dsgt.DSGT, W).high / np.linalg.norm(H, 2, axis=(1, 2)).max()
        curved = np.zeros((n * m, n * m))
        for i in range(n):
            curved[i * m : (i + 1) * m, i * m : (i + 1) * m] = H[i]
        step = np.block([[mix, -lr * mix], [curved @ (mix - eye), mix - lr * curved @ mix]])
        moduli = np.sort(np.abs(np.linalg.eigvals(step)))
        assert moduli[-1] < 1 + 1e-6  # the unit roots, which a correct start does not excite (E9), are defective
