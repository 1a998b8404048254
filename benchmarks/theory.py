"""What docs/theory.md quotes: slack of the bounds, fitted rates, network independence, the cost of advice.

    python benchmarks/theory.py [bounds | linear | rates | network | advice]

The problems and runs are those of the tests, so this file only prints what they assert.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import test_theory_advice as advice_tests
import test_theory_bounds as bound_tests
import test_theory_linear as linear_tests
import test_theory_rates as rate_tests
from dsgt.theory import diminishing, polyak_lojasiewicz, strongly_convex, theorem_1, theorem_2, typical_ratio
from dsgt.topologies.spectrum import rho
from support.moments import expected
from support.random_problems import random_network, random_problem
from support.theory_problems import NETWORKS, SHAPES, constants, known, run_known


def bounds() -> None:
    slack = []
    for shape in SHAPES:
        for W in NETWORKS.values():
            for sigma, lam in bound_tests.NOISE.values():
                for seed, schedule in enumerate(bound_tests.SCHEDULES.values()):
                    p, x1 = known(shape, 6, seed=seed), bound_tests.unequal if seed % 2 else None
                    lr = schedule(constants(p, W, sigma=sigma, lam=lam, x1=x1).largest_step)
                    trace = run_known(p, W, lr, 100, sigma=sigma, lam=lam, x1=x1, seeds=8)
                    c = constants(p, W, sigma=sigma, lam=lam, x1=x1, Y1=trace.Y1)
                    for K in bound_tests.AT:
                        slack.append(theorem_1(c, lr, K).total / trace.mean(trace.stationarity, lr)[K - 1])
                        if p.shape.convex:
                            slack.append(theorem_2(c, lr, K).total / trace.mean(trace.excess, lr)[K - 1])
    print(f"bound / run over {len(slack)} comparisons: smallest {min(slack):.3g}, median {np.median(slack):.3g}")


def linear(networks: Sequence[str] = ("nearly complete", "wheel", "ring")) -> None:
    """At half of the largest step: the factor per round, and how far the ball is above what the noise keeps up."""
    p, x = linear_tests.quadratics(0, concave=False), linear_tests.starts(0)
    names = {strongly_convex: "strongly convex", polyak_lojasiewicz: "Polyak-Lojasiewicz"}
    cases = itertools.product(networks, linear_tests.METHODS.items(), linear_tests.BOUNDS)
    for network, (method, mixed), (bound, largest, column) in cases:
        c = p.constants(NETWORKS[network], x, 0.5, 0.0)
        step = largest(c, tracker_mixed=mixed) / 2
        found = bound(c, step, tracker_mixed=mixed)
        K = math.ceil(12 / (1 - found.radius))
        run = expected(p, NETWORKS[network], step, K, x, sigma2=0.5, mixed=mixed)[-1, [column, 2]]
        mean, models = found.ball[:2] / run
        print(
            f"{network}, {method}, {names[bound]}: lr L = {step * c.L:.3g}, 1 - radius = {1 - found.radius:.3g} beside "
            f"lr mu = {step * c.mu:.3g}; the ball is {mean:.3g} times the mean model's, {models:.3g} times the scatter"
        )


def rates() -> None:
    W = NETWORKS["ring"]
    for shape in SHAPES:
        p = known(shape, 6)
        trace = run_known(p, W, lambda k, lr=0.8 / p.L: lr, 1500)
        K = np.unique(np.geomspace(50, 1500, 12).astype(int))
        slope, half = rate_tests.fitted_slope(K, trace.mean(trace.stationarity, lambda k: 1.0)[K - 1])
        print(f"{shape}, exact gradients, K = 50 ... 1500: slope {slope:.4f} ± {half:.4f}")
    for shape in ("quadratic", "log(1 + u^2)"):
        p, sigma = known(shape, 6), 3.0
        c, K, R = constants(p, W, sigma=sigma), np.array([1000, 2000, 4000, 8000]), []
        for rounds in K:
            step = c.D / (math.sqrt(rounds) * c.L * sigma)
            R.append(run_known(p, W, lambda k, s=step: s, int(rounds), sigma=sigma, seeds=64).stationarity.mean())
        slope, half = rate_tests.fitted_slope(K, np.array(R))
        print(f"{shape}, noise and the step of Corollary 2, K = 1000 ... 8000: slope {slope:.3f} ± {half:.3f}")
    for power in (0.5, 0.6, 0.75):
        p = known("quadratic", 6)
        lr = diminishing(0.5 / p.L, power)
        trace = run_known(p, W, lr, 6000, sigma=1.0, seeds=16)
        K = np.unique(np.geomspace(600, 6000, 12).astype(int))
        slope, half = rate_tests.fitted_slope(K, trace.mean(trace.stationarity, lr)[K - 1])
        print(f"steps a/k^{power:g}, K = 600 ... 6000: slope {slope:.3f} ± {half:.3f}, theory {-(1 - power):g}")


def network() -> None:
    for shape in ("quadratic", "log(1 + u^2)"):
        p = known(shape, rate_tests.NODES)
        for lr_L in (0.125, 0.03, 0.008):
            found = []
            for name, W in rate_tests.GRAPHS.items():
                trace = run_known(p, W, lambda k, lr=lr_L / p.L: lr, int(26 / lr_L), sigma=1.0, seeds=8)
                window = max(1, int(0.5 / lr_L))
                smooth = np.convolve(trace.stationarity, np.ones(window) / window, "valid")
                hits = np.flatnonzero(smooth <= 0.05 * trace.gradient[0])
                rounds = str(hits[0] + window) if len(hits) else "never"
                found.append(f"{name} {rounds} ({typical_ratio(W, lr_L):.2g})")
            print(f"{shape}, lr L = {lr_L}: rounds to 5% (typical ratio): {', '.join(found)}")


def advice() -> None:
    costs = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 10))
        problem, W = random_problem(rng, n), random_network(rng, n)
        if rho(W) < 0.99:
            costs.append(advice_tests.cost(problem, W, 80))
    within = np.mean(np.array(costs) <= 2)
    print(f"rounds beside the best of 16 rates over {len(costs)} problems:", end=" ")
    print(f"median {np.median(costs):.2f}, {within:.0%} within 2")


if __name__ == "__main__":
    parts = {"bounds": bounds, "linear": linear, "rates": rates, "network": network, "advice": advice}
    for name in sys.argv[1:] or parts:
        parts[name]()
