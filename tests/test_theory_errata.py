"""The errata of docs/errata.md that are inequalities and constants, checked one by one."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dsgt.data import Shards, WithoutReplacement, WithReplacement
from dsgt.data.sampling import Bernoulli
from dsgt.problems.least_squares import LeastSquares
from dsgt.theory import Constants, corollary_2, paper_step
from dsgt.theory.bounds import independence_rounds
from dsgt.theory.centralized import given_shards, given_union
from dsgt.theory.independence import network_ratio
from dsgt.topologies.spectrum import rho
from dsgt.topologies.weights import metropolis

R = np.linspace(0, 1, 200_001)[:-1]
"""rho on a fine grid."""


@pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0, 1.9])
def test_e9_the_matrix_of_example_1_has_spectral_radius_at_least_1_for_every_step(gamma: float):
    """So 'converges only if it is below 1' can never hold; one unit eigenvalue must be left out."""
    W = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    H = np.block([[(2 - gamma) * W, -(1 - gamma) * W], [np.eye(3), np.zeros((3, 3))]])
    assert pytest.approx(np.ones(6)) == H @ np.ones(6)


def test_e27_assumption_a1_needs_eta_to_mean_the_same_in_all_units():
    c = Constants(n=6, L=2.0, rho=0.7, sigma2=1.0, gap=3.0)
    paper = c.in_paper_units(samples=600, batch=60)
    lr = c.largest_step / 3
    gamma = paper_step(lr, nodes=6, batch=60)
    assert network_ratio(paper, gamma, 50) == pytest.approx(network_ratio(c, lr, 50))
    printed = [k.n * k.L * k.rho**2 / (1 - k.rho) ** 3 * g for k, g in ((c, lr), (paper, gamma))]
    assert printed[1] == pytest.approx(printed[0] / paper.eta)


def test_e14_connected_and_doubly_stochastic_does_not_imply_rho_below_1():
    assert rho(np.array([[0.0, 1.0], [1.0, 0.0]])) == pytest.approx(1)
    assert rho(metropolis(nx.path_graph(2))) < 1  # a positive diagonal is what was missing


def test_e15_negative_weights_keep_the_norm_of_W_at_1():
    W = 1.25 * metropolis(nx.star_graph(5)) - 0.25 * np.eye(6)
    assert W.min() < 0
    assert np.abs(W).sum(axis=1).max() > 1  # so the printed argument fails
    assert np.linalg.norm(W, 2) == pytest.approx(1)


@pytest.mark.parametrize("graph", [nx.complete_bipartite_graph(3, 3), nx.path_graph(5), nx.star_graph(4)])
def test_e16_the_gap_is_the_smaller_one_of_both_ends_of_the_spectrum(graph: nx.Graph):
    W = metropolis(graph)
    w = np.linalg.eigvalsh(W)
    assert 1 - rho(W) == pytest.approx(min(1 - w[-2], 1 + w[0]))


def test_e16_the_printed_gap_is_wrong_where_the_negative_end_is_the_larger_one():
    W = np.array([[0.1, 0.9], [0.9, 0.1]])
    assert 1 - np.linalg.eigvalsh(W)[-2] == pytest.approx(1.8)
    assert 1 - rho(W) == pytest.approx(0.2)


def test_e17_with_lambda_above_0_the_realised_variance_exceeds_the_sum_of_the_sigma_i():
    """s = (1 + lam z) grad f with z of mean 0 and variance 1 has sigma_i = 0 and a variance all the same."""
    lam, gradient = 0.5, torch.tensor([3.0, 4.0], dtype=torch.float64)
    z = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    variance = float((lam * z[:, None] * gradient).square().sum(dim=-1).mean())
    assert variance == pytest.approx(lam**2 * 25) != 0.0


def test_e18_37_is_the_least_whole_constant_that_repairs_the_step_rule():
    """[120 rho²(1-rho)(1+√rho)² + 4.5 (1+rho)²(1-rho)²] / (c (1+rho)^4) <= 1/4 needs c >= 36.58."""
    left = 120 * R**2 * (1 - R) * (1 + np.sqrt(R)) ** 2 + 4.5 * (1 + R) ** 2 * (1 - R) ** 2
    least = 4 * (left / (1 + R) ** 4).max()
    assert 36.5 < least < 36.6
    printed = 72 * R**2 * (1 - R) * (1 + np.sqrt(R)) ** 2 + 4.5 * (1 + R) ** 2 * (1 - R) ** 2
    assert 4 * (printed / (1 + R) ** 4).max() <= 24  # without the lost terms the printed 24 suffices


def test_e18_one_and_a_half_covers_the_lost_terms():
    assert ((6 + 4 * R**2) * (1 - R**2) <= 1.5 * 4 * (1 + R) ** 2).all()


def test_e21_e22_the_constants_of_corollary_2_follow_from_its_number_of_rounds():
    @settings(deadline=None, max_examples=200)
    @given(
        st.integers(1, 100),
        st.floats(0, 0.999),
        st.floats(0, 0.2),
        st.floats(1e-2, 1e2),
        st.floats(1e-2, 1e2),
        st.floats(0.01, 1),
    )
    def check(n: int, r: float, lam: float, gap: float, sigma: float, eta: float):
        c = Constants(n=n, L=2.0, rho=r, lam=lam, gap=gap, sigma2=sigma**2, eta=eta)
        K = math.ceil(independence_rounds(c)) + 1
        tuned = corollary_2(c, K)  # would refuse a step that Theorem 1 does not allow
        third = 9 * c.D * sigma / (eta * math.sqrt(K))
        assert tuned.bound.network <= third * (1 + 1e-9)
        assert tuned.bound.total <= tuned.simple * (1 + 1e-9)
        assert tuned.bound.optimisation == pytest.approx(12 * c.D * sigma / (eta * math.sqrt(K)))
        assert tuned.bound.variance == pytest.approx(third)

    check()


def test_e24_the_sum_lemma_holds_although_its_proof_does_not():
    rng = np.random.default_rng(0)
    for theta in (0.1, 0.5, 0.9, 0.99):
        s = rng.random(60) ** 4
        a = [sum(s[t] * (k - t) * theta ** (k - t - 1) for t in range(k)) for k in range(60)]
        assert sum(a) <= s.sum() / (1 - theta) ** 2


def test_e25_the_step_that_was_proved_in_the_wrong_direction_is_still_true():
    """c_1 a_1/c_2 = a_1 a_2 (4 - 3 eta L̃ gamma) L/(2 L̃) <= 8 rho²(1-rho)²(1+√rho)²/(1+rho)^6 <= (1+rho)²/8."""
    left = 8 * R**2 * (1 - R) ** 2 * (1 + np.sqrt(R)) ** 2 / (1 + R) ** 6
    assert ((1 + R) ** 2 / 8 - left).min() > 0.029


def test_e26_the_claims_that_can_be_checked_are_true():
    u = (1 - R) ** 2 / (1 + R) ** 2  # the largest eta L̃ gamma
    inner = R[1:]  # at rho = 0 theta is 0
    v = u[1:]
    theta = 2 * inner**2 / (1 + inner**2) + 2 * (inner * v) ** 2 / (1 - inner**2)
    theta += 2 * inner * v * np.sqrt((inner * v) ** 2 + 2 * (1 + inner) ** 2) / (1 - inner**2)
    assert (theta <= (np.sqrt(inner) + inner) / (1 + inner) + 1e-9).all()  # both tend to 1
    assert (4 - 3 * u >= (1 + R) ** 2 - 1e-12).all()
    assert (16 * R**2 * (1 - R) ** 2 * (1 + np.sqrt(R)) ** 2 / (1 + R) ** 8).max() < 0.25
    last = 72 * R**2 * (1 - R) * (1 + np.sqrt(R)) ** 2 + 5 * (1 + R) ** 2 * (1 - R) ** 2
    assert (last / (24 * (1 + R) ** 4)).max() < 0.25
    assert (2 * R + 2 * u <= 2 + 1e-12).all()


def variance_of_batches(sampling, features: torch.Tensor, targets: torch.Tensor, rounds: int = 1500) -> float:
    """The variance of the *sum* of the gradients that one node draws at x = 0, over many rounds."""
    problem = LeastSquares((features, targets), Shards.of([range(len(targets))]), sampling)
    oracle = problem.oracle(0)
    x = torch.zeros(1, features.shape[1], dtype=torch.float64)
    b = float(problem.batch[0])
    s = torch.stack([b * oracle(x, k)[0] for k in range(rounds)])
    return float((s - b * problem.gradient(x)[0]).square().sum(dim=-1).mean())


def test_e6_e28_the_variance_of_a_batch_depends_on_how_it_is_drawn():
    draw = torch.Generator().manual_seed(0)
    A = torch.randn(12, 3, dtype=torch.float64, generator=draw)
    t = torch.randn(12, dtype=torch.float64, generator=draw)
    r = -A * t[:, None]  # every sample's gradient at 0
    centred, eta = float((r - r.mean(dim=0)).square().sum()), 0.25
    assert variance_of_batches(WithReplacement(eta), A, t) == pytest.approx(eta * centred, rel=0.1)
    without = eta * centred * (12 - 3) / (12 - 1)
    assert variance_of_batches(WithoutReplacement(eta), A, t) == pytest.approx(without, rel=0.1)
    bernoulli = eta * (1 - eta) * float(r.square().sum())
    assert variance_of_batches(Bernoulli(eta), A, t) == pytest.approx(bernoulli, rel=0.1)
    copies = A[:1].expand(12, -1).contiguous(), t[:1].expand(12).contiguous()
    assert variance_of_batches(WithReplacement(eta), *copies) < 1e-20
    assert variance_of_batches(Bernoulli(eta), *copies, rounds=200) > 0.1  # Example 2 fails under Bernoulli sampling


def test_e29_the_local_variance_is_at_most_the_global_one_at_a_common_model_and_not_in_general():
    """sigma_s^2 = eta ||J̃ r||^2 <= eta ||J r||^2 = M sigma^2 for one r; with two models the maxima may differ."""
    a = torch.tensor([1.0, -1.0, 10.0, 10.0])
    local = float((a[:2] - a[:2].mean()).square().sum() + (a[2:] - a[2:].mean()).square().sum())
    assert local <= float((a - a.mean()).square().sum())
    # l(x; d) = d x^2/2 on two shards: node 1 at x = 10, node 2 at 0, against the same samples at one model of size 5
    d = torch.tensor([1.0, 3.0])
    apart = float((10 * (d - d.mean())).square().sum())
    together = float((5 * (torch.tensor([1.0, 3, 1, 3]) - 2)).square().sum())
    assert apart > together


@pytest.mark.parametrize(("M", "factor"), [(19, 19.0), (36, 2.0), (1024, 1024 / 1006)])
def test_e30_the_comparison_with_centralized_sgd_needs_a_batch_above_18(M: int, factor: float):
    assert given_union(M=M) == pytest.approx(factor)
    with pytest.raises(ValueError, match="M > 18"):
        given_union(M=18)


def test_e31_the_centring_matrix_has_norm_1_although_its_row_sums_are_larger():
    for N in (2, 5, 20):
        J = np.eye(N) - 1 / N
        assert np.linalg.norm(J, 2) == pytest.approx(1)
        assert np.abs(J).sum(axis=0).max() * np.abs(J).sum(axis=1).max() == pytest.approx(4 * (1 - 1 / N) ** 2)


def test_example_2_dsgt_pays_nothing_for_noise_where_centralized_sgd_does():
    compared = given_shards(n=4, L=1.0, L_c=1.0, sigma2=0.0, sigma2_global=2.0, M=4)
    assert (compared.ratio, compared.centralized, compared.decentralized) == (0.0, 0.5, 0.0)
    assert given_shards(n=4, L=1.0, L_c=1.0, sigma2=0.0, sigma2_global=0.0, M=4).ratio == 1.0
