"""Runs stay below their bounds, and the constants as printed do not bound them where the errata say so."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dsgt.theory import Constants, corollary_1, corollary_2, diminishing, theorem_1, theorem_2
from dsgt.theory.bounds import independence_rounds
from support.theory_problems import F64, NETWORKS, SHAPES, Known, constants, known, run_known, uniform

AT = [1, 2, 3, 10, 50, 100]
"""The K at which a run is compared with its bound."""
NOISE = {"exact": (0.0, 0.0), "noisy": (0.7, 0.0), "noise that grows": (0.3, 0.05)}
SCHEDULES = {
    "constant": lambda top: lambda k: top,
    "small": lambda top: lambda k: top / 7,
    "1/sqrt(k)": lambda top: diminishing(top, 0.5),
    "1/k^0.8": lambda top: diminishing(top, 0.8),
    "one drop": lambda top: lambda k: top if k < 20 else top / 10,
}
unequal = torch.tensor([[3.0, -1.0], [0, 2], [-2, 0], [1, 1], [4, 0], [-5, 1]], dtype=F64)


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_run_stays_below_its_bound(shape: str, network: str, noise: str):
    """Averages over 32 seeds. No tolerance is needed: the tightest of these bounds is 7 times what the run shows."""
    W, (sigma, lam) = NETWORKS[network], NOISE[noise]
    for seed, (name, schedule) in enumerate(SCHEDULES.items()):
        p = known(shape, 6, seed=seed)
        x1 = unequal if seed % 2 else None
        c = constants(p, W, sigma=sigma, lam=lam, x1=x1)
        lr = schedule(c.largest_step)
        trace = run_known(p, W, lr, AT[-1], sigma=sigma, lam=lam, x1=x1)
        c = constants(p, W, sigma=sigma, lam=lam, x1=x1, Y1=trace.Y1)
        R, R_c = trace.mean(trace.stationarity, lr), trace.mean(trace.excess, lr)
        for K in AT:
            assert R[K - 1] <= theorem_1(c, lr, K).total, (name, K)
            if p.shape.convex:
                assert R_c[K - 1] <= theorem_2(c, lr, K).total, (name, K)


def printed_initial(c: Constants, gamma1: float, front: float, K: int) -> float:
    """The last term of Theorem 1 (front = 12 n L) or 2 (front = 6) with the printed 2 sqrt(rho), constant steps."""
    r = c.rho
    C = 2 * math.sqrt(r) * c.L / (1 - math.sqrt(r)) * c.X1
    C += 2 * c.L * r**2 * (1 + r) * gamma1**2 / (1 - math.sqrt(r)) ** 3 * c.Y1
    return front * C / K


@pytest.mark.parametrize(("r", "violated"), [(1e-4, True), (1e-3, True), (0.0015, True), (0.0018, False), (0.1, False)])
def test_e19_the_printed_initial_term_is_violated_for_rho_below_0_0016_only(r: float, violated: bool):
    """f_i = x^2/2 from models of mean 0: after a round 24 sqrt(rho)/(1 - sqrt(rho)) < 1 breaks it; corrected, never."""
    p = Known(SHAPES["quadratic"], torch.ones(4, 1, dtype=F64), torch.zeros(4, 1, dtype=F64))
    x1 = torch.tensor([[1.0], [-1], [2], [-2]], dtype=F64)
    W = uniform(4, r)
    gamma = constants(p, W, x1=x1).largest_step
    trace = run_known(p, W, lambda k: gamma, 1, x1=x1)
    c = constants(p, W, x1=x1, Y1=trace.Y1)
    assert c.gap == pytest.approx(0, abs=1e-5)  # the grid of the minimum
    assert (trace.stationarity[0] > printed_initial(c, gamma, 12 * c.n * c.L, 1)) == violated
    assert (trace.excess[0] > printed_initial(c, gamma, 6, 1)) == (r < 0.0018 and violated)
    assert trace.stationarity[0] <= theorem_1(c, gamma, 1).total
    assert trace.excess[0] <= theorem_2(c, gamma, 1).total


@pytest.mark.parametrize(("distance", "violated"), [(1.0, False), (5.9, False), (6.1, True), (100.0, True)])
def test_e20_the_printed_distance_without_its_square_is_violated_beyond_6_only(distance: float, violated: bool):
    """f_i = x^2/2 with averaging weights, gamma = 1: n d^2/2 after one round, against the printed 3 n d."""
    p = Known(SHAPES["quadratic"], torch.ones(4, 1, dtype=F64), torch.zeros(4, 1, dtype=F64))
    x1 = torch.full((4, 1), distance, dtype=F64)
    W = np.full((4, 4), 0.25)
    c = constants(p, W, x1=x1)
    trace = run_known(p, W, lambda k: 1.0, 1, x1=x1)
    assert c.largest_step == 1.0
    assert (trace.excess[0] > 3 * c.n * math.sqrt(c.distance2)) == violated
    assert trace.excess[0] <= theorem_2(c, 1.0, 1).total


def test_every_term_of_both_theorems_is_what_a_pencil_gives():
    """rho = 1/4 makes rho^2 (1 + sqrt(rho))^2 / (1 - rho)^3 = 1/3, and C = 2 L X1 / (1 - sqrt(rho)) = 4."""
    c = Constants(n=2, L=1.0, rho=0.25, sigma2=1.0, gap=2.0, distance2=1.0, X1=1.0)
    first, second = theorem_1(c, 0.25, 10), theorem_2(c, 0.25, 10)
    terms = ("optimisation", "variance", "network", "initial")
    # 12 D^2 / (K gamma), 9 L sigma^2 gamma, 96/3 n L^2 sigma^2 gamma^2, 12 n L C / K
    assert [getattr(first, term) for term in terms] == pytest.approx([19.2, 2.25, 4.0, 9.6])
    # 3 n d^2 / (K gamma), 5 sigma^2 gamma / n, 48/3 L sigma^2 gamma^2, 6 C / K
    assert [getattr(second, term) for term in terms] == pytest.approx([2.4, 0.625, 1.0, 2.4])


@pytest.mark.parametrize("last", [0.0, -0.1])
def test_steps_that_fall_below_every_step_above_0_are_refused(last: float):
    c = Constants(n=2, L=1.0, rho=0.25, sigma2=1.0, gap=2.0)
    for theorem in (theorem_1, theorem_2):
        with pytest.raises(ValueError, match=f"the step is {last:g}, but Theorem 1 holds for 0 < step"):
            theorem(replace(c, distance2=1.0), lambda k: 0.1 if k < 5 else last, 10)


def test_corollary_2_is_theorem_1_at_its_own_step_and_holds_for_a_run():
    p, W = known("log(1 + u^2)", 6), NETWORKS["nearly complete"]
    c = constants(p, W, sigma=3.0)
    K = math.ceil(independence_rounds(c)) + 10
    tuned = corollary_2(c, K)
    assert tuned.step == pytest.approx(math.sqrt(c.n * c.gap / (c.L * K)) / math.sqrt(c.sigma2))
    assert tuned.step <= c.largest_step
    assert tuned.bound.total <= tuned.simple
    assert K < 5000
    trace = run_known(p, W, lambda k: tuned.step, K, sigma=3.0)
    assert trace.stationarity.mean() <= tuned.bound.total


@pytest.mark.parametrize("p", [0.5, 0.6, 0.75, 0.99, 1.0])
@pytest.mark.parametrize("K", [2, 10, 1000])
def test_corollary_1_is_never_below_theorem_1_with_the_same_steps(p: float, K: int):
    c = constants(known("quadratic", 6), NETWORKS["ring"], sigma=1.0, x1=unequal)
    a = c.largest_step / 2
    closed, exact = corollary_1(c, a, p, K), theorem_1(c, diminishing(a, p), K)
    for term in ("optimisation", "variance", "network", "initial"):
        assert getattr(closed, term) >= getattr(exact, term) * (1 - 1e-12)  # rounding


def test_corollary_1_at_p_1_is_the_limit_of_p_below_1():
    c = constants(known("quadratic", 6), NETWORKS["ring"], sigma=1.0)
    a = c.largest_step
    assert corollary_1(c, a, 1.0, 100).total == pytest.approx(corollary_1(c, a, 1 - 1e-7, 100).total, rel=1e-5)


@pytest.mark.parametrize(("samples", "batch"), [(600, 60), (600, 600), (6, 6)])
def test_both_units_give_the_same_statement(samples: int, batch: int):
    """Theorem 1 bounds a squared gradient of N F in place of n F, Theorem 2 a value: (N/n)^2 and N/n."""
    c = constants(known("quadratic", 6), NETWORKS["ring"], sigma=1.0, lam=0.02, x1=unequal, Y1=4.0)
    paper = c.in_paper_units(samples=samples, batch=batch)
    lr = c.largest_step / 2
    gamma = c.n * lr / batch
    assert paper.largest_step == pytest.approx(c.n * c.largest_step / batch)
    for theorem, power in ((theorem_1, 2), (theorem_2, 1)):
        ours, theirs = theorem(c, lr, 100), theorem(paper, gamma, 100)
        for term in ("optimisation", "variance", "network", "initial", "total"):
            assert getattr(theirs, term) == pytest.approx((samples / c.n) ** power * getattr(ours, term))
