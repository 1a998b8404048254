"""The linear rates hold round by round: exactly in expectation on quadratics, and on runs that are not convex."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dsgt import data
from dsgt.algorithms import DSGT, AugDGM
from dsgt.networks import Dense
from dsgt.problems import LeastSquares
from dsgt.theory import (
    Constants,
    Linear,
    estimate,
    polyak_lojasiewicz,
    polyak_lojasiewicz_step,
    strongly_convex,
    strongly_convex_step,
)
from dsgt.topologies.spectrum import rho
from support.moments import Quadratics, expected
from support.theory_problems import F64, NETWORKS

ROOT = Path(__file__).parent.parent
N = 6
METHODS = {"dsgt": False, "aug-dgm": True}
NOISE = {"exact": (0.0, 0.0), "noisy": (0.7, 0.0), "noise that grows": (0.3, 0.05)}
Bounding = Callable[..., Linear]
Largest = Callable[..., float]
BOUNDS: list[tuple[Bounding, Largest, int]] = [
    (strongly_convex, strongly_convex_step, 0),
    (polyak_lojasiewicz, polyak_lojasiewicz_step, 1),
]
"""The bound, its largest step, and which column of ``expected`` its first quantity is."""
RELATIVE = 1 + 1e-9
"""Rounding: a bound that is met with equality is compared with it."""
RESTS = 1e-14
"""Covariances around 1 that should be 0 round to less than this."""


def quadratics(seed: int, *, concave: bool) -> Quadratics:
    """Means 0.1 and 1 in two coordinates, nodes between 0 and twice that, or beyond and partly concave."""
    draw = np.random.default_rng(seed)
    share = draw.dirichlet(np.ones(N), size=2).T * N
    h = np.array([0.1, 1.0]) * (1 + (2.0 if concave else 0.5) * (share - 1))
    return Quadratics(h, draw.normal(size=(N, 2)))


def starts(seed: int) -> np.ndarray:
    """All nodes equal for even seeds."""
    x = np.random.default_rng(100 + seed).normal(size=(N, 2))
    return x if seed % 2 else np.repeat(x[:1], N, axis=0)


@pytest.mark.parametrize("mixed", METHODS.values(), ids=METHODS)
def test_the_expected_moments_are_those_of_the_methods_of_the_package(mixed: bool):
    """What the bounds are compared with below; without noise the expectation is the run."""
    p, W, x = quadratics(1, concave=True), NETWORKS["directed ring"], starts(1)
    algorithm, mix = (AugDGM() if mixed else DSGT()), Dense(W).at(0)
    h, a = torch.from_numpy(p.h), torch.from_numpy(p.a)
    state, X = algorithm.init(torch.from_numpy(x), mix), []
    for _ in range(30):
        X.append(state.x)
        state = algorithm.update(state, h * (state.x - a), mix, 0.05)
    run = torch.stack(X)
    bar = run.mean(dim=1)
    found = expected(p, W, 0.05, 29, x, mixed=mixed)
    assert found[:, 0] == pytest.approx((bar - torch.from_numpy(p.best)).square().sum(dim=1).numpy(), rel=1e-10)
    assert found[:, 2] == pytest.approx((run - bar[:, None]).square().sum(dim=(1, 2)).numpy(), rel=1e-10)


@pytest.mark.parametrize("mixed", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("network", NETWORKS)
def test_quadratics_stay_below_both_bounds_in_every_round(network: str, noise: str, mixed: bool):
    W, (sigma2, lam) = NETWORKS[network], NOISE[noise]
    for seed, (bound, largest, column) in itertools.product((0, 3), BOUNDS):
        p, x = quadratics(seed, concave=seed > 0), starts(seed)
        c = p.constants(W, x, sigma2, lam)
        top = largest(c, tracker_mixed=mixed)
        for step in (top, top / 2, top / 20):
            linear = bound(c, step, tracker_mixed=mixed)
            run = expected(p, W, step, 60, x, sigma2=sigma2, lam=lam, mixed=mixed)[:, [column, 2, 3]]
            assert linear.radius < 1
            assert (run <= linear.rounds(60) * RELATIVE + RESTS).all(), (seed, step / top)


@pytest.mark.parametrize("mixed", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize(("bound", "largest", "column"), BOUNDS)
def test_the_bound_falls_nearly_as_fast_as_gradient_descent_and_so_does_the_run(
    bound: Bounding, largest: Largest, column: int, mixed: bool
):
    """At half the largest step the radius is 1 - lr mu, to a tenth of the gap, and what the bound says happens."""
    p, x, W = quadratics(0, concave=False), starts(0), NETWORKS["wheel"]
    c = p.constants(W, x, 0.0, 0.0)
    step = largest(c, tracker_mixed=mixed) / 2
    linear = bound(c, step, tracker_mixed=mixed)
    assert 0.9 * step * c.mu <= 1 - linear.radius <= step * c.mu
    K = math.ceil(20 / (1 - linear.radius))
    assert linear.rounds(K)[-1, 0] < 1e-6 * linear.start[0]
    assert (linear.ball == 0).all()
    run = expected(p, W, step, K, x, mixed=mixed)[:, column]
    assert (run[-1] / run[K // 2]) ** (2 / K) <= linear.radius


@pytest.mark.parametrize("mixed", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize(("bound", "largest", "column"), BOUNDS)
def test_the_ball_is_above_what_the_noise_keeps_up_and_not_far_above(
    bound: Bounding, largest: Largest, column: int, mixed: bool
):
    """At half the largest step: between 50 and 170 times for the mean model, 50 to 60 times for the disagreement."""
    p, x, W = quadratics(0, concave=False), starts(0), NETWORKS["wheel"]
    c = p.constants(W, x, 0.5, 0.0)
    step = largest(c, tracker_mixed=mixed) / 2
    linear = bound(c, step, tracker_mixed=mixed)
    K = math.ceil(10 / (1 - linear.radius))
    assert linear.rounds(K)[-1] == pytest.approx(linear.ball, rel=1e-3)
    run = expected(p, W, step, K, x, sigma2=0.5, mixed=mixed)[-1, [column, 2, 3]]
    assert (run < linear.ball).all()
    assert (linear.ball < 200 * run).all()


def test_with_averaging_weights_the_bounds_are_those_of_sgd():
    """Nothing is left of the network: (1 - lr mu)^k and lr sigma^2/(n^2 mu), or L/2 of it for the loss."""
    c = Constants(n=4, L=2.0, mu=0.5, rho=0.0, sigma2=3.0, gap=12.0, distance2=1.5, Y1=7.0)
    k, left = np.arange(21), 0.9 ** np.arange(21)
    assert strongly_convex_step(c) == pytest.approx(2 / 2.5)
    assert polyak_lojasiewicz_step(c) == pytest.approx(1 / 2)
    ball = 0.2 * 3 / 16 / 0.5
    assert strongly_convex(c, 0.2).rounds(20)[k, 0] == pytest.approx(left * 1.5 + (1 - left) * ball)
    assert polyak_lojasiewicz(c, 0.2).rounds(20)[k, 0] == pytest.approx(left * 3 + (1 - left) * ball)  # L/2 is 1
    assert strongly_convex(c, 0.2).ball[1] == 0


def test_before_the_first_round_the_nodes_are_as_far_as_quadratics_of_curvature_L_are():
    """The mean over the nodes of |x_i - x*|^2 is |x̄ - x*|^2 + X1/n, and so it is of F = (L/2) |x|^2, times L/2."""
    c = Constants(n=4, L=2.0, mu=2.0, rho=0.3, sigma2=3.0, gap=6.0, distance2=1.5, X1=5.0)
    assert strongly_convex(c, 0.05).nodes(3)[0] == pytest.approx(1.5 + 5 / 4)
    assert polyak_lojasiewicz(c, 0.05).nodes(3)[0] == pytest.approx(1.5 + 5 / 4)


@pytest.mark.parametrize("mixed", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize(("largest", "power"), [(strongly_convex_step, 2), (polyak_lojasiewicz_step, 1)])
@pytest.mark.parametrize("rho", [0.3, 0.7, 0.95, 0.999])
@pytest.mark.parametrize("kappa", [1.5, 30.0, 1e4])
def test_the_largest_step_is_the_root_of_a_quadratic(
    largest: Largest, power: int, rho: float, kappa: float, mixed: bool
):
    """det(I - A) = 0, by hand (docs/linear-rates.md)."""
    c = Constants(n=5, L=3.0, mu=3.0 / kappa, rho=rho, sigma2=1.0, gap=1.0)
    r = rho**2 if mixed else 1.0
    top, middle, low = 2 * r * rho**2 * (1 + kappa**power), 4 * r * rho**2 * (1 + rho**2), -((1 - rho) ** 4)
    z = -2 * low / (middle + math.sqrt(middle**2 - 4 * top * low))
    most = 2 / (1 + 1 / kappa) if power == 2 else 1.0
    assert largest(c, tracker_mixed=mixed) * c.L == pytest.approx(min(most, math.sqrt(z)), rel=1e-6)


def wavy(x: torch.Tensor) -> torch.Tensor:
    return (x.square() + 3 * x.sin().square()).sum(dim=-1)


def wavy_constants(tilt: torch.Tensor, bend: torch.Tensor, W: np.ndarray, x: float, sigma2: float) -> Constants:
    """f_i(x) = sum_j x_j^2 + 3 sin(x_j)^2 + tilt_ij x_j + bend_ij x_j^2 / 2, where tilts and bends sum to 0."""
    t = torch.linspace(-8, 8, 160_001, dtype=F64)[:, None]
    slope = 2 * t + 3 * (2 * t).sin()
    mu = float((slope.square()[:, 0] / wavy(t) / 2)[wavy(t) > 1e-6].min())
    start = torch.full((1, tilt.shape[1]), x, dtype=F64)
    g = tilt + bend * start
    n = len(W)
    return Constants(
        n=n,
        L=8 + float(bend.abs().max()),
        mu=mu,
        rho=rho(W) if rho(W) > 1e-12 else 0.0,
        sigma2=sigma2,
        gap=n * float(wavy(start)),
        Y1=float((g - g.mean(dim=0)).square().sum()) + (1 - 1 / n) * sigma2,
    )


@pytest.mark.parametrize("mixed", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("sigma2", [0.0, 0.7])
@pytest.mark.parametrize("network", ["complete", "nearly complete", "wheel", "ring", "directed ring"])
def test_runs_that_are_not_convex_stay_below_the_bound_in_every_round(network: str, sigma2: float, mixed: bool):
    """From x = 5, over a slope whose curvature is -4, in two dimensions; means of 64 seeds where there is noise. No
    tolerance but rounding: the bound is met with equality before the first round only."""
    draw, W, m, K = torch.Generator().manual_seed(0), NETWORKS[network], 2, 200
    seeds = 64 if sigma2 else 1
    tilt, bend = (torch.randn(N, m, dtype=F64, generator=draw) for _ in range(2))
    tilt, bend = tilt - tilt.mean(dim=0), bend - bend.mean(dim=0)
    c = wavy_constants(tilt, bend, W, 5.0, sigma2)
    step = polyak_lojasiewicz_step(c, tracker_mixed=mixed) / 2
    linear = polyak_lojasiewicz(c, step, tracker_mixed=mixed)
    algorithm, mix = (AugDGM() if mixed else DSGT()), Dense(W).at(0)
    state = algorithm.init(torch.full((N, seeds * m), 5.0, dtype=F64), mix)
    rows, nodes = [], []
    for _ in range(K + 1):
        x = state.x.view(N, seeds, m)
        g = 2 * x + 3 * (2 * x).sin() + tilt[:, None] + bend[:, None] * x
        g = g + math.sqrt(sigma2 / N / m) * torch.randn(x.shape, dtype=F64, generator=draw)
        rows.append(torch.stack([wavy(x.mean(dim=0)).mean(), (x - x.mean(dim=0)).square().sum() / seeds]))
        nodes.append(float(wavy(x).mean()))
        state = algorithm.update(state, g.view(N, -1), mix, step)
    run, bounds = torch.stack(rows).numpy(), linear.rounds(K)
    assert (run <= bounds[:, :2] * RELATIVE + RESTS).all()
    assert (np.array(nodes) <= linear.nodes(K) * RELATIVE).all()
    assert linear.radius < 1


@pytest.mark.parametrize(("bound", "largest", "column"), BOUNDS)
def test_both_units_give_the_same_statement(bound: Bounding, largest: Largest, column: int):
    """Distances are distances; losses and gradients of sums are larger by N/n and M/n."""
    c = quadratics(0, concave=False).constants(NETWORKS["ring"], starts(1), 1.0, 0.02)
    paper = c.in_paper_units(samples=600, batch=60)
    step = largest(c) / 2
    ours, theirs = bound(c, step), bound(paper, c.n * step / 60)
    assert largest(paper) == pytest.approx(c.n * largest(c) / 60)
    assert theirs.radius == pytest.approx(ours.radius)
    scales = np.array([600 / c.n if column else 1.0, 1.0, (60 / c.n) ** 2])
    assert theirs.rounds(50) == pytest.approx(scales * ours.rounds(50))
    assert theirs.nodes(50) == pytest.approx(scales[0] * ours.nodes(50))


def test_what_is_missing_or_too_large_is_said():
    c = Constants(n=4, L=2.0, rho=0.5, sigma2=1.0, gap=1.0)
    for largest in (strongly_convex_step, polyak_lojasiewicz_step):
        with pytest.raises(ValueError, match="mu is 0 and L is 2, but a linear rate needs 0 < mu <= L"):
            largest(c)
    known = replace(c, mu=0.5)
    with pytest.raises(ValueError, match="starts at distance2"):
        strongly_convex(known, 0.01)
    for step in (0.0, -0.1, 0.5, math.nan):
        with pytest.raises(ValueError, match=r"falls linearly for 0 < step <= 0\.107009"):
            polyak_lojasiewicz(known, step)
    with pytest.raises(ValueError, match="K is -1"):
        polyak_lojasiewicz(known, 0.01).rounds(-1)
    with pytest.raises(ValueError, match="mu is -1, but"):
        replace(c, mu=-1.0)


def test_an_estimate_knows_the_strong_convexity_that_the_bounds_need():
    samples, shards = data.synthetic.least_squares([12, 15, 9], 3, dtype=F64)
    problem = LeastSquares(samples, shards, data.Full())
    c = estimate(problem, NETWORKS["complete"][:3, :3] * 2).constants
    assert c.mu == pytest.approx(problem.constants.mu)
    assert strongly_convex(c, strongly_convex_step(c) / 2).radius < 1


def test_the_command_that_prints_the_quoted_numbers_works(capsys: pytest.CaptureFixture[str]):
    spec = importlib.util.spec_from_file_location("theory_numbers", ROOT / "benchmarks" / "theory.py")
    printing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(printing)
    printing.linear(["nearly complete"])
    assert len(capsys.readouterr().out.splitlines()) == 4
