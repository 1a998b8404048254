"""Methods that become other methods where a parameter says so, and not where it does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dsgt
from dsgt.core import Algorithm
from dsgt.networks import Peers, in_threads
from dsgt.topologies import Periodic, TwoMatrices
from dsgt.topologies.weights import metropolis
from support.cases import CASES, F64, Rounds, graph, pull, push, quadratic
from support.reference import REFERENCE

N = 8
W = metropolis(graph(N))


def starts(n: int = N, m: int = 5) -> Tensor:
    return torch.randn(n, m, dtype=F64, generator=torch.Generator().manual_seed(3))


def path(method: Algorithm[Any], weights: Any = W, x0: Tensor | None = None, *, lr=0.02, rounds: int = 100) -> Tensor:
    """The models of a stochastic run from different starts."""
    x0 = starts() if x0 is None else x0
    states = dsgt.iterate(method, quadratic(N).stochastic, weights, x0, lr)
    return torch.stack([s.x for s in itertools.islice(states, rounds + 1)])


def published(name: str, *, lr=lambda k: 0.02, rounds: int = 100, **parameters: Any) -> Tensor:
    def G(X: np.ndarray, k: int) -> np.ndarray:
        return quadratic(N).stochastic(torch.from_numpy(X), k).numpy()

    expected = REFERENCE[name](G, Rounds(CASES[name].weights(graph(N))), starts().numpy(), lr, rounds, **parameters)
    return torch.from_numpy(np.stack(expected))


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize(
    ("method", "other"),
    [
        (dsgt.MomentumTracking(0), dsgt.GNSD()),
        (dsgt.DSGTHB(0), dsgt.AugDGM()),
        (dsgt.DSGTNesterov(0), dsgt.DSGT()),
        (dsgt.GTAdam(beta1=0, beta2=1, eps=1), dsgt.GNSD()),
        (dsgt.PushDIGing(), dsgt.DSGT()),
        (dsgt.QGDSGDm(0, nesterov=True), dsgt.AtcDPSGD()),
        (dsgt.PushPull(), dsgt.DSGT()),
        (dsgt.AB(), dsgt.GNSD()),
        (dsgt.KGT(1), dsgt.DSGT()),
        (dsgt.LUGT(1), dsgt.AugDGM()),
        (dsgt.LED(1), dsgt.D2()),
        (dsgt.ProxSkip(1.0), dsgt.ExactDiffusion()),
    ],
    ids=repr,
)
def test_one_method_is_another_one(method: Algorithm[Any], other: Algorithm[Any]):
    assert relative(path(method), path(other)) < 1e-13  # 100 rounds of round-off


def test_push_pull_and_ab_with_twice_the_same_matrix_are_dsgt_and_gnsd():
    twice = TwoMatrices(W, W)
    assert relative(path(dsgt.PushPull(), twice), path(dsgt.DSGT())) < 1e-13
    assert relative(path(dsgt.AB(), twice), path(dsgt.GNSD())) < 1e-13


@pytest.mark.parametrize("K", [1, 4])
def test_lu_gt_is_aug_dgm_over_weights_that_mix_rarely(K: int):
    assert relative(path(dsgt.LUGT(K)), path(dsgt.AugDGM(), Periodic(W, K))) < 1e-13


def test_local_steps_without_their_correction_are_biased():
    """With C frozen at 0, K-GT is local SGD, which ends beside the optimum."""
    problem = quadratic(N)

    class Uncorrected(dsgt.KGT):
        def update(self, s, g, mix, lr):
            return super().update(s, g, mix, lr)._replace(c=torch.zeros_like(g))

    def missed(method: Algorithm[Any]) -> float:
        states = dsgt.iterate(method, problem.full, W, torch.zeros(5, dtype=F64), 0.02)
        return (next(itertools.islice(states, 5000, None)).x - problem.optimum).norm().item()

    assert missed(dsgt.KGT(5)) < 1e-9
    assert missed(Uncorrected(5)) > 1e-2


def test_a_restart_does_not_cut_a_phase():
    for method in (dsgt.KGT(4), dsgt.LED(4)):
        with pytest.raises(
            ValueError, match=r"restart_every is 6, but \w+ works in phases of 4 rounds: give a multiple"
        ):
            dsgt.iterate(method, quadratic(N).full, W, starts(), 0.01, restart_every=6)
        dsgt.iterate(method, quadratic(N).full, W, starts(), 0.01, restart_every=8)


def test_dual_averaging_refuses_unequal_starts():
    with pytest.raises(ValueError, match="x0 holds different models, but DDA needs equal ones"):
        dsgt.iterate(dsgt.DDA(), quadratic(N).full, W, starts(), 0.01)
    with pytest.raises(ValueError, match="DDA begins with equal models, which those of a run are not"):
        dsgt.iterate(dsgt.DDA(), quadratic(N).full, W, starts()[0], 0.01, restart_every=5)

    def act(network: Peers) -> None:
        dsgt.Optimizer(nn.Linear(2, 1).parameters(), dsgt.DDA(), network, lr=0.1, start="own")

    with pytest.raises(ValueError, match="start is 'own', but DDA needs equal models"):
        in_threads([[1.0]], act, timeout=60)


@pytest.mark.parametrize(
    ("method", "weights", "words"),
    [
        (dsgt.PushPull(), push(graph(N)), "PushPull needs the rows of W to sum to 1"),
        (dsgt.PushPull(), pull(graph(N)), r"needs the columns of W to sum to 1.*\(this is the second matrix\)"),
        (dsgt.AB(), TwoMatrices(push(graph(N)), push(graph(N))), "AB needs the rows of W to sum to 1"),
        (dsgt.FROST(), push(graph(N)), "FROST needs the rows of W to sum to 1"),
        (dsgt.PushDIGing(), pull(graph(N)), "PushDIGing needs the columns of W to sum to 1"),
        (dsgt.LED(), Periodic(W, 2), "LED needs a network that does not change"),
    ],
)
def test_a_matrix_of_the_wrong_kind_is_refused(method: Algorithm[Any], weights: Any, words: str):
    with pytest.raises(ValueError, match=words):
        dsgt.iterate(method, quadratic(N).full, weights, starts(), 0.01)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dsgt.KGT(0), "K of KGT is 0; expected at least 1"),
        (lambda: dsgt.LED(0), "K of LED is 0; expected at least 1"),
        (lambda: dsgt.ProxSkip(0.0), r"p of ProxSkip is 0\.0; expected above 0 and at most 1"),
        (lambda: dsgt.ProxSkip(1.1), r"p of ProxSkip is 1\.1; expected above 0 and at most 1"),
    ],
)
def test_parameters_out_of_their_range_are_refused(make: Callable[[], Any], words: str):
    with pytest.raises(ValueError, match=words):
        make()


def test_led_needs_the_eigenvalue_that_follows_from_beta():
    """Just above it a small step converges, just below it does not: seen on two nodes."""
    for beta in (1.0, 0.5):
        method = dsgt.LED(3, beta)
        for off, stable in ((0.01, True), (-0.01, False)):
            low = method.needs.floor + off
            network = dsgt.networks.Dense(np.array([[1 + low, 1 - low], [1 - low, 1 + low]]) / 2)
            state, a = method.init(torch.ones(2, 1, dtype=F64), network.at(0)), torch.tensor([[0.0], [1.0]], dtype=F64)
            for k in range(30_000):
                state = method.update(state, state.x - a, network.at(k), 1e-3)
            assert ((state.x - 0.5).abs().max() < 1e-6) == stable


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.algorithm.uncoordinated])
def test_methods_that_say_so_are_exact_with_a_different_step_at_every_node(name: str):
    case, problem = CASES[name], quadratic(N)
    network, state = dsgt.networks.Dense(case.weights(graph(N))), None
    lr = 0.2 / problem.L * torch.linspace(0.3, 1, N, dtype=F64)[:, None]
    state = case.algorithm.init(torch.zeros(N, 5, dtype=F64), network.at(0))
    for k in range(4000):
        state = case.algorithm.update(state, problem.full(state.x, k), network.at(k), lr)
    assert (state.x - problem.optimum).norm() < 1e-9


def test_heavy_ball_without_momentum_is_not_dsgt_which_mixes_its_tracker_before_the_gradient_comes():
    assert relative(path(dsgt.DSGTHB(0)), path(dsgt.DSGT())) > 1e-3


def test_momentum_tracking_from_the_published_start_is_not_gnsd():
    assert relative(published("momentum-tracking", beta=0, published_start=True), path(dsgt.GNSD())) > 1e-3
    assert relative(published("momentum-tracking", beta=0), path(dsgt.GNSD())) < 1e-13


def test_gradient_push_is_sgp_from_the_mixed_models_and_with_an_average_besides():
    P, w = CASES["sgp"].weights(graph(N)), None
    network = dsgt.networks.Dense(P)
    first = dsgt.GradientPush().init(starts(), network.at(0))
    problem, sgp, state = quadratic(N), dsgt.SGP(), first
    u, w, x = first.v, first.w, first.x
    for k in range(50):
        state = dsgt.GradientPush().update(state, problem.stochastic(state.x, k), network.at(k), 0.02)
        found = sgp.update(sgp.init(x, network.at(k))._replace(u=u, w=w), problem.stochastic(x, k), network.at(k), 0.02)
        x, u, w = found
    assert relative(state.x, x) < 1e-14
    assert relative(state.mean, state.x) > 1e-3


def test_dual_averaging_with_a_constant_step_and_equal_starts_is_d_psgd():
    x0 = torch.ones(5, dtype=F64)
    assert relative(path(dsgt.DDA(), x0=x0), path(dsgt.DPSGD(), x0=x0)) < 1e-13
    falling = {"x0": x0, "lr": lambda k: 0.05 / (k + 1) ** 0.5}
    assert relative(path(dsgt.DDA(), **falling), path(dsgt.DPSGD(), **falling)) > 1e-3


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("qg-dsgdm", {"beta": 0.8, "mu": 0.7, "nesterov": True}),
        ("momentum-tracking", {"beta": 0.5}),
        ("dsgt-hb", {"beta": 0.5}),
        ("dsgt-nesterov", {"beta": 0.5}),
        ("dsmt", {"lam": 0.5}),
        ("acc-dngd", {"mu": 0.3}),
        ("acc-dngd", {"mu": 0, "L": 3.0}),
        ("gtadam", {"beta1": 0.5, "beta2": 0.9, "eps": 0.1, "cap": 2.0}),
        ("decentralized-amsgrad", {"beta1": 0.5, "beta2": 0.9, "eps": 0.1}),
        ("k-gt", {"K": 3, "eta": 0.8}),
        ("led", {"K": 3, "beta": 0.5}),
        ("proxskip", {"p": 0.4, "a": 0.3, "seed": 5}),
        ("lu-gt", {"K": 3}),
    ],
)
def test_every_parameter_is_that_of_the_published_recursion(name: str, parameters: dict[str, Any]):
    found = path(dsgt.ALGORITHMS[name](**parameters), CASES[name].weights(graph(N)), rounds=60)
    assert relative(found, published(name, rounds=60, **parameters)) < 1e-13
    assert relative(found, published(name, rounds=60)) > 1e-3  # each of them matters


def test_nesterov_on_the_tracker_is_dsgt_with_torchs_sgd_inside():
    inside = dsgt.DSGT(inner=dsgt.Inner(torch.optim.SGD, momentum=0.9, nesterov=True))

    def trained(method: Algorithm[Any]) -> Tensor:
        def act(network: Peers) -> Tensor:
            model = nn.Linear(5, 1, bias=False, dtype=F64)
            nn.init.zeros_(model.weight)
            optimizer = dsgt.Optimizer(model.parameters(), method, network, lr=0.01)
            for k in range(20):
                model.weight.grad = quadratic(4).node_gradient(network.node, model.weight.detach()[0], k)[None]
                optimizer.step()
            return model.weight.detach()

        return torch.stack(in_threads(metropolis(graph(4)), act, timeout=60))

    found = trained(dsgt.DSGTNesterov())
    assert found.norm() > 0.1
    assert relative(found, trained(inside)) < 1e-13


def test_amsgrad_tracks_what_all_nodes_divide_by():
    states = dsgt.iterate(dsgt.DecentralizedAMSGrad(), quadratic(N).stochastic, W, starts(), 0.02)
    for state in itertools.islice(states, 50):
        assert torch.allclose(state.Wu.wait().mean(dim=0), state.h.mean(dim=0), rtol=1e-13)
    assert (state.h - 0.01).abs().max() > 0.1  # there was something to track


def test_gradient_descent_by_adam_at_every_node_alone_goes_to_another_point_and_gtadam_to_the_optimum():
    """Not reduced by a smaller step: the nodes divide by different numbers."""
    problem = quadratic(N)

    def missed(method: Algorithm[Any], lr: float) -> float:
        states = dsgt.iterate(method, problem.full, W, torch.zeros(5, dtype=F64), lr)
        return (next(itertools.islice(states, 6000, None)).x.mean(dim=0) - problem.optimum).norm().item()

    class Naive(dsgt.GTAdam):
        """Every node's own gradient in the place of the tracker."""

        def update(self, s, g, mix, lr):
            return super().update(s._replace(g=torch.zeros_like(g), Wy=dsgt.core.Done(torch.zeros_like(g))), g, mix, lr)

    assert missed(dsgt.GTAdam(), 0.004) < 1e-9
    assert missed(Naive(eps=1e-8), 0.004) > 0.1
    assert missed(Naive(eps=1e-8), 0.002) > 0.1


def rounds_until(method: Algorithm[Any], H: Tensor, weights: np.ndarray, lr: float, target: float) -> int:
    """To be so near to the optimum 0 at every node, from 1 on: f_i(x) = (x - a_i)' diag(H) (x - a_i) / 2."""
    a = starts(len(weights), len(H))
    a = a - a.mean(dim=0)
    states = dsgt.iterate(method, lambda x, k: H * (x - a), weights, torch.ones_like(H), lr)
    return next(k for k, s in enumerate(itertools.islice(states, 50_000)) if s.x.abs().max() < target)


def test_acceleration_needs_fewer_rounds_than_gnsd_where_the_problem_is_ill_conditioned():
    """kappa = 1000. GNSD is stable up to lr = (1 + lambda_n)^2 / 2 and runs just below; Acc-DNGD bears less."""
    H, limit = torch.logspace(-3, 0, 6, dtype=F64), (1 + np.linalg.eigvalsh(W)[0]) ** 2 / 2
    plain = rounds_until(dsgt.GNSD(), H, W, 0.95 * limit, 1e-3)
    accelerated = rounds_until(dsgt.AccDNGD(mu=1e-3), H, W, 0.3 * limit, 1e-3)
    assert 5 * accelerated < plain


def test_the_form_for_convex_functions_reaches_the_optimum_of_a_quadratic_too():
    problem = quadratic(N)
    states = dsgt.iterate(
        dsgt.AccDNGD(mu=0, L=problem.L), problem.full, W, torch.zeros(5, dtype=F64),
        lambda k: 0.05 / problem.L / (1 + k) ** 0.1,
    )  # fmt: skip
    missed = [(s.x - problem.optimum).norm().item() for s in itertools.islice(states, 4001)]
    assert missed[4000] < 1e-3 * missed[0]


def test_momentum_on_the_tracker_is_faster_than_dsgt_on_a_ring():
    """lr = 0.01 is small for DSGT, which then follows centralized SGD; momentum 0.9 does ten of its rounds in one."""
    H = torch.logspace(-1, 0, 4, dtype=F64)
    ring = metropolis(nx.cycle_graph(16))
    plain = rounds_until(dsgt.DSGT(), H, ring, 0.01, 1e-6)
    assert 4 * rounds_until(dsgt.DSGTNesterov(), H, ring, 0.01, 1e-6) < plain
    assert 4 * rounds_until(dsgt.MomentumTracking(), H, ring, 0.01, 1e-6) < plain


def test_overlapping_push_without_delay_is_sgp_and_with_one_it_is_the_published_recursion():
    P = push(graph(N))
    assert torch.allclose(path(dsgt.OSGP(tau=0), P), path(dsgt.SGP(), P), rtol=0, atol=1e-13)

    def G(X: np.ndarray, k: int) -> np.ndarray:
        return quadratic(N).stochastic(torch.from_numpy(X), k).numpy()

    for tau in (1, 3):
        expected = REFERENCE["osgp"](G, lambda k: P, starts().numpy(), lambda k: 0.02, 100, tau)
        assert torch.allclose(path(dsgt.OSGP(tau=tau), P), torch.from_numpy(np.stack(expected)), rtol=0, atol=1e-12)
        states = dsgt.iterate(dsgt.OSGP(tau=tau), quadratic(N).stochastic, P, starts(), 0.02)
        for s in itertools.islice(states, 30):
            on_their_way = sum(message.wait()[:, -1].sum() for message in s.heard)
            assert abs(s.w.sum() + on_their_way - N) < 1e-12
