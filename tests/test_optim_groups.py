"""Parameter groups, optimizers of torch's on the tracked gradient, and clipping by the tracker."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector
from torch.optim import lr_scheduler

import dsgt
from dsgt.networks import Peers, in_threads
from dsgt.topologies import metropolis
from support.cases import CASES, F64, graph

N = 3
W = metropolis(graph(N))
STEPS = 8


def net(dtype: torch.dtype = F64) -> nn.Sequential:
    """The same numbers in every thread, whose global random state they share."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).to(F64)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.rand(p.shape, generator=draw, dtype=F64) - 0.5)
    return model.to(dtype)


def backward(model: nn.Module, node: int, k: int) -> None:
    draw = torch.Generator().manual_seed(100 * node + k)
    batch = torch.randn(8, 4, dtype=F64, generator=draw).to(next(model.parameters()).dtype)
    (model(batch).pow(2).mean() + (model(batch) * batch[:, :2]).mean()).backward()


def trained(network: Peers, make: Callable[[nn.Module, Peers], Any], steps: int = STEPS) -> Tensor:
    model = net()
    made = make(model, network)
    optimizer, schedulers = made if isinstance(made, tuple) else (made, [])
    for k in range(steps):
        optimizer.zero_grad()
        backward(model, network.node or 0, k)
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    return parameters_to_vector(model.parameters()).detach().clone()


def everywhere(make: Callable[[nn.Module, Peers], Any], W: Any = W) -> Tensor:
    return torch.stack(in_threads(W, lambda network: trained(network, make), timeout=60))


def two_groups(model: nn.Sequential) -> list[dict[str, Any]]:
    return [{"params": model[0].parameters(), "lr": 0.02, "weight_decay": 0.1}, {"params": model[2].parameters()}]


def test_groups_with_equal_settings_are_one_group():
    one = everywhere(lambda model, network: dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1))
    many = [lambda model: [{"params": [p]} for p in model.parameters()], lambda model: model.named_parameters()]
    for groups in many:
        assert torch.equal(
            everywhere(lambda model, network, g=groups: dsgt.Optimizer(g(model), dsgt.DSGT(), network, lr=0.1)), one
        )


def test_alone_groups_are_those_of_torchs_sgd():
    """With schedulers that change the ratio of the groups' learning rates in every step."""

    def with_scheduler(optimizer: torch.optim.Optimizer) -> tuple[torch.optim.Optimizer, list[Any]]:
        return optimizer, [lr_scheduler.LambdaLR(optimizer, [lambda k: 1 / (1 + k), lambda k: 1 + 0.1 * k])]

    ours = everywhere(
        lambda model, network: with_scheduler(dsgt.Optimizer(two_groups(model), dsgt.DSGT(), network, lr=0.1)), [[1.0]]
    )
    theirs = everywhere(lambda model, _: with_scheduler(torch.optim.SGD(two_groups(model), lr=0.1)), [[1.0]])
    assert torch.allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_groups_lr_moves_x_and_is_never_multiplied_into_what_is_tracked(name: str):
    """Against the method's own update with a vector of learning rates that change from round to round."""
    algorithm = CASES[name].algorithm

    def rates(k: int) -> tuple[float, float]:
        return 0.05 / (1 + k), 0.02 * (1 + 0.2 * k)

    def act(network: Peers) -> tuple[Tensor, Tensor]:
        model, twin = net(), net()
        optimizer = dsgt.Optimizer(two_groups(model), algorithm, network, lr=0.1, weight_decay=0.0)
        state = algorithm.init(parameters_to_vector(twin.parameters()).detach(), network.at(0))
        size = sum(p.numel() for p in twin[0].parameters())
        for k in range(STEPS):
            first, second = rates(k)
            lr = torch.where(torch.arange(len(state[0])) < size, first, second).double()
            for group, value in zip(optimizer.param_groups, rates(k), strict=True):
                group["lr"] = value
            optimizer.zero_grad()
            backward(model, network.node or 0, k)
            optimizer.step()
            torch.nn.utils.vector_to_parameters(state[0].clone(), twin.parameters())
            twin.zero_grad()
            backward(twin, network.node or 0, k)
            g = parameters_to_vector([p.grad for p in twin.parameters()])
            g[:size] += 0.1 * state[0][:size]
            state = algorithm.update(state, g, network.at(k), lr)
        return parameters_to_vector(model.parameters()).detach(), state[0]

    for found, expected in in_threads(CASES[name].weights(graph(N)), act, timeout=60):
        assert torch.allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (lambda model: [{"params": model[0].parameters(), "lr": -1.0}, {"params": model[2].parameters()}], "group 0"),
        (lambda model: [{"params": model.parameters(), "weight_decay": -1.0}], r"weight_decay is -1\.0"),
    ],
)
def test_settings_of_a_group_are_checked(groups: Callable[[nn.Module], Any], words: str):
    with pytest.raises(ValueError, match=words):
        everywhere(lambda model, network: dsgt.Optimizer(groups(model), dsgt.DSGT(), network, lr=0.1), [[1.0]])


@pytest.mark.parametrize("name", CASES)
def test_a_warm_up_may_begin_with_a_learning_rate_of_zero_where_nothing_is_divided_by_it(name: str):
    algorithm = CASES[name].algorithm

    def act(network: Peers) -> Tensor:
        model = net()
        optimizer = dsgt.Optimizer(model.parameters(), algorithm, network, lr=0.05)
        scheduler = lr_scheduler.LambdaLR(optimizer, lambda k: k / 2)
        for k in range(3):
            optimizer.zero_grad()
            backward(model, network.node or 0, k)
            optimizer.step()
            if k == 0:
                assert all(map(torch.allclose, model.parameters(), net().parameters()))
            scheduler.step()
        return parameters_to_vector(model.parameters()).detach()

    weights = CASES[name].weights(graph(N))
    if algorithm.divides_by_lr:
        with pytest.raises(ValueError, match=r"lr is 0\.0; a learning rate is a finite number above 0$"):
            in_threads(weights, act, timeout=60)
    else:
        assert torch.stack(in_threads(weights, act, timeout=60)).isfinite().all()


@pytest.mark.parametrize("lr", [-0.1, math.nan])
@pytest.mark.parametrize("method", [dsgt.DSGT(), dsgt.DSGT(inner=dsgt.Inner(torch.optim.AdamW))], ids=repr)
def test_a_learning_rate_that_a_scheduler_spoils_is_refused_in_the_step(method: dsgt.DSGT, lr: float):
    def act(network: Peers) -> None:
        model = net()
        optimizer = dsgt.Optimizer(model.parameters(), method, network, lr=0.1)
        optimizer.param_groups[0]["lr"] = lr
        backward(model, 0, 0)
        optimizer.step()

    with pytest.raises(ValueError, match="a learning rate is a finite number above 0 or 0"):
        in_threads([[1.0]], act)


def test_parameters_cannot_be_added_later():
    def act(network: Peers) -> None:
        optimizer = dsgt.Optimizer(net().parameters(), dsgt.DSGT(), network, lr=0.1)
        optimizer.add_param_group({"params": net().parameters()})

    with pytest.raises(ValueError, match="give all parameters to the constructor"):
        in_threads([[1.0]], act)


INNERS = [
    dsgt.Inner(torch.optim.SGD, momentum=0.9, nesterov=True),
    dsgt.Inner(torch.optim.AdamW, betas=(0.9, 0.95), weight_decay=0.1),
    dsgt.Inner(torch.optim.Adam, amsgrad=True),
    dsgt.Inner(torch.optim.RMSprop),
    dsgt.Inner(torch.optim.Adagrad),
]
inners = pytest.mark.parametrize("inner", INNERS, ids=repr)


@inners
def test_alone_an_inner_optimizer_is_torchs_own(inner: dsgt.Inner):
    ours = everywhere(lambda m, n: dsgt.Optimizer(two_groups(m), dsgt.DSGT(inner=inner), n, lr=0.01), [[1.0]])
    theirs = everywhere(lambda model, _: inner.kind(two_groups(model), lr=0.01, **inner.options), [[1.0]])
    assert torch.allclose(ours, theirs, rtol=1e-9)  # x - (x - x') is rounded


def test_an_inner_sgd_is_the_method_itself():
    plain = everywhere(lambda model, net: dsgt.Optimizer(model.parameters(), dsgt.DSGT(), net, lr=0.1))
    inner = dsgt.DSGT(inner=dsgt.Inner(torch.optim.SGD))
    found = everywhere(lambda model, net: dsgt.Optimizer(model.parameters(), inner, net, lr=0.1))
    assert torch.allclose(found, plain, rtol=1e-10)


@inners
def test_an_inner_optimizer_is_saved_and_loaded(inner: dsgt.Inner):
    def act(network: Peers) -> Tensor:
        model = net()
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(inner=inner), network, lr=0.01)
        for k in range(STEPS):
            if k == 4:
                saved = copy.deepcopy(optimizer.state_dict())
                model = net()
                optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(inner=inner), network, lr=0.5)
                optimizer.load_state_dict(saved)
            optimizer.zero_grad()
            backward(model, network.node or 0, k)
            optimizer.step()
        return parameters_to_vector(model.parameters()).detach()

    undisturbed = everywhere(lambda m, n: dsgt.Optimizer(m.parameters(), dsgt.DSGT(inner=inner), n, lr=0.01))
    assert torch.equal(torch.stack(in_threads(W, act, timeout=60)), undisturbed)


@pytest.mark.parametrize(
    "inner", [i for i in INNERS if not i.options.get("weight_decay")] + [dsgt.Inner(torch.optim.NAdam)], ids=repr
)
def test_an_inner_optimizer_does_not_leave_a_point_where_the_mean_gradient_and_the_tracker_are_zero(inner: dsgt.Inner):
    """Node i pulls towards i - 1, so that the optimum is 0; AdamW has a weight decay by default, and is left out."""

    def act(network: Peers) -> Tensor:
        p = nn.Parameter(torch.zeros(3, dtype=F64))
        optimizer = dsgt.Optimizer([p], dsgt.DSGT(inner=inner), network, lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            (0.5 * (p - ((network.node or 0) - 1)).pow(2).sum()).backward()
            optimizer.step()

        step()
        there = optimizer.state_dict()
        held = there["dsgt"]["tensors"]
        for name in held:
            if name not in ("g", "inner.step", "inner.mu_product"):
                held[name].zero_()
        optimizer.load_state_dict(there)
        for _ in range(3):
            step()
        return p.detach().clone()

    assert not torch.stack(in_threads(W, act, timeout=60)).any()


def test_muon_moves_matrices():
    """It takes no vectors, so the biases are frozen here."""

    def make(model: nn.Module, network: Peers) -> dsgt.Optimizer:
        for p in model.parameters():
            p.requires_grad_(p.ndim == 2)
        method = dsgt.DSGT(inner=dsgt.Inner(torch.optim.Muon))
        return dsgt.Optimizer(model.parameters(), method, network, lr=0.01)

    found = everywhere(make)
    assert found.isfinite().all()
    assert not torch.equal(found[0], parameters_to_vector(net().parameters()))


def test_one_cycle_changes_the_inner_momentum():
    method = dsgt.DSGT(inner=dsgt.Inner(torch.optim.SGD, momentum=0.9))

    def make(kind: Callable[[nn.Module], torch.optim.Optimizer], model: nn.Module) -> tuple[Any, list[Any]]:
        optimizer = kind(model)
        return optimizer, [lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=STEPS + 1)]

    ours = everywhere(lambda m, n: make(lambda m: dsgt.Optimizer(m.parameters(), method, n, lr=0.1), m), [[1.0]])
    theirs = everywhere(lambda m, _: make(lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9), m), [[1.0]])
    assert torch.allclose(ours, theirs, rtol=1e-9)  # x - (x - x') is rounded


def test_the_tracker_keeps_its_mean_under_an_inner_optimizer_and_under_clipping():
    def act(network: Peers, **options: Any) -> tuple[Tensor, Tensor]:
        method = options.pop("method", dsgt.DSGT())
        model = net()
        optimizer = dsgt.Optimizer(model.parameters(), method, network, lr=0.05, **options)
        for k in range(STEPS):
            optimizer.zero_grad()
            backward(model, network.node or 0, k)
            optimizer.step()
        state = optimizer.state_dict()["dsgt"]["tensors"]
        return network.mean(state["Wy"]), network.mean(state["g"])

    for options in ({"clip": 0.01}, {"method": dsgt.DSGT(inner=dsgt.Inner(torch.optim.AdamW))}):
        for y, s in in_threads(W, lambda network, o=options: act(network, **o), timeout=60):
            assert (y - s).abs().max() < 1e-14


def test_clipping_scales_the_step_and_only_above_the_norm():
    plain = everywhere(lambda m, n: dsgt.Optimizer(m.parameters(), dsgt.DSGT(), n, lr=0.05))
    loose = everywhere(lambda m, n: dsgt.Optimizer(m.parameters(), dsgt.DSGT(), n, lr=0.05, clip=1e6))
    assert torch.allclose(loose, plain, rtol=1e-12)

    def first_step(network: Peers) -> Tensor:
        return trained(network, lambda m, n: dsgt.Optimizer(m.parameters(), dsgt.DSGT(), n, lr=0.05, clip=0.1), steps=1)

    moved = in_threads([[1.0]], first_step)[0] - parameters_to_vector(net().parameters()).detach()
    assert torch.isclose(moved.norm(), torch.tensor(0.05 * 0.1, dtype=F64))


@pytest.mark.parametrize(("algorithm", "clip"), [(dsgt.DSGT(), 0.0), (dsgt.D2(), 1.0), (dsgt.GNSD(), 1.0)])
def test_clipping_is_refused_where_nodes_need_one_step(algorithm: dsgt.Algorithm[Any], clip: float):
    with pytest.raises(ValueError, match=r"clip is .* expected a norm above 0, and DSGT or AugDGM"):
        everywhere(lambda m, n: dsgt.Optimizer(m.parameters(), algorithm, n, lr=0.1, clip=clip), [[1.0]])


def test_an_inner_optimizer_cannot_be_simulated_and_says_so():
    with pytest.raises(ValueError, match=r"which only dsgt.Optimizer does"):
        next(dsgt.iterate(dsgt.DSGT(inner=INNERS[0]), lambda x, k: x, W, torch.zeros(2, dtype=F64), 0.1))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: dsgt.Inner("adam"), TypeError, "expected a class such as torch.optim.AdamW"),
        (lambda: dsgt.Inner(torch.optim.Adam, lr=0.1), ValueError, "give it to dsgt.Optimizer"),
        (lambda: dsgt.Inner(torch.optim.LBFGS), ValueError, "LBFGS evaluates the loss many times a step"),
    ],
)
def test_a_wrong_inner_optimizer_is_refused(make: Callable[[], Any], error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        make()


def test_half_precision_and_autocast():
    def act(network: Peers, dtype: torch.dtype) -> Tensor:
        model = net(dtype)
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
        for k in range(STEPS):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.float32):
                backward(model, network.node or 0, k)
            optimizer.step()
        assert optimizer.state_dict()["dsgt"]["tensors"]["Wy"].dtype == torch.float32
        return parameters_to_vector(model.parameters()).detach().double()

    exact = everywhere(lambda m, n: dsgt.Optimizer(m.parameters(), dsgt.DSGT(), n, lr=0.1))
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        found = torch.stack(in_threads(W, lambda network, d=dtype: act(network, d), timeout=60))
        assert (found - exact).abs().max() < 0.05  # eight steps with 8 bits of mantissa in the gradients
