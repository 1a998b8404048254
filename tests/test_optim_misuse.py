"""The optimizer in other people's loops: right, or a clear error before it matters; never silent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import dsgt
from dsgt.networks import Peers, in_threads
from dsgt.topologies import metropolis
from support.cases import CASES, F64, graph

N = 3
W = metropolis(graph(N))
PAIR = [[0.6, 0.4], [0.4, 0.6]]


def data(node: int, size: int = 12) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(node)
    inputs = torch.randn(size, 3, generator=draw, dtype=F64)
    return inputs, (inputs + 0.3 * node).sum(dim=1, keepdim=True)


def linear() -> nn.Linear:
    model = nn.Linear(3, 1, dtype=F64)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.5)
    return model


def backward(model: nn.Module, node: int) -> Tensor:
    inputs, targets = data(node)
    loss = (model(inputs) - targets).pow(2).mean()
    loss.backward()
    return loss


def train(
    network: Peers,
    *,
    steps: int = 6,
    meddle: Callable[[nn.Module, int], Any] = lambda model, k: None,
    algorithm: dsgt.Algorithm[Any] | None = None,
    **options: Any,
) -> Tensor:
    """A loop that anybody would write; ``meddle`` is what else the script does after a step."""
    model = linear()
    optimizer = dsgt.Optimizer(model.parameters(), algorithm or dsgt.DSGT(), network, **({"lr": 0.1} | options))
    for k in range(steps):
        optimizer.zero_grad()
        backward(model, network.node or 0)
        optimizer.step()
        meddle(model, k)
    return parameters_to_vector(model.parameters()).detach().clone()


def everywhere(act: Callable[[Peers], Tensor], W: Any = W) -> Tensor:
    return torch.stack(in_threads(W, act, timeout=60))


# ---- parameters that are no longer views of the flat vector


def replaced(model: nn.Module, k: int) -> None:
    for p in model.parameters():
        p.data = p.data.clone()


def by_vector(model: nn.Module, k: int) -> None:
    vector_to_parameters(parameters_to_vector(model.parameters()).clone(), model.parameters())


def swapped(model: nn.Module, k: int) -> None:
    """An exponential moving average that puts the weights aside for an evaluation and a clone of them back."""
    kept = [p.data.clone() for p in model.parameters()]
    for p in model.parameters():
        p.data = torch.zeros_like(p)
    for p, old in zip(model.parameters(), kept, strict=True):
        p.data = old


def flattened(model: nn.Module, k: int) -> None:
    """What ``RNN.flatten_parameters`` does on a GPU, where it moves all weights into one piece of memory."""
    memory = parameters_to_vector(model.parameters()).detach().clone()
    for p, part in zip(model.parameters(), memory.split([p.numel() for p in model.parameters()]), strict=True):
        p.data = part.view_as(p)


@pytest.mark.parametrize("meddle", [replaced, by_vector, swapped, flattened])
def test_parameters_that_were_given_other_memory_are_followed(meddle: Callable[[nn.Module, int], None]):
    expected = everywhere(train)
    assert torch.equal(everywhere(lambda network: train(network, meddle=meddle)), expected)


def test_a_parameter_of_another_dtype_is_refused_by_name():
    def act(network: Peers) -> None:
        model = linear()
        optimizer = dsgt.Optimizer(model.named_parameters(), dsgt.DSGT(), network, lr=0.1)
        model.float()
        inputs, targets = data(0)
        (model(inputs.float()) - targets.float()).pow(2).mean().backward()
        optimizer.step()

    with pytest.raises(RuntimeError, match=r"weight is \(1, 3\) float32 on cpu now, but was \(1, 3\) float64"):
        in_threads([[1.0]], act)


def test_an_assigned_state_dict_is_followed_or_refused():
    """``load_state_dict(assign=True)`` gives the model parameters that the optimizer has never seen."""

    def act(network: Peers) -> None:
        model = linear()
        optimizer = dsgt.Optimizer(model.named_parameters(), dsgt.DSGT(), network, lr=0.1)
        model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)
        backward(model, 0)
        optimizer.step()

    with pytest.raises(RuntimeError, match="no new gradient"):
        in_threads([[1.0]], act)


# ---- a model that is changed between steps


def loaded(model: nn.Module, k: int) -> None:
    if k == 2:
        model.load_state_dict({name: torch.full_like(v, 7.0) for name, v in model.state_dict().items()})


def clamped(model: nn.Module, k: int) -> None:
    for p in model.parameters():
        p.data.clamp_(-0.2, 0.2)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("meddle", [loaded, clamped])
def test_a_model_that_is_changed_between_steps_is_gone_on_from_or_refused(
    name: str, meddle: Callable[[nn.Module, int], None]
):
    """Gone on from: the step is the method's update from the new x."""
    case = CASES[name]

    def act(network: Peers) -> tuple[Tensor, Tensor]:
        model, twin = linear(), linear()
        optimizer = dsgt.Optimizer(model.parameters(), case.algorithm, network, lr=0.05)
        state = case.algorithm.init(parameters_to_vector(twin.parameters()).detach(), network.at(0))
        for k in range(5):
            optimizer.zero_grad()
            backward(model, network.node or 0)
            optimizer.step()
            vector_to_parameters(state[0], twin.parameters())
            twin.zero_grad()
            backward(twin, network.node or 0)
            g = parameters_to_vector([p.grad for p in twin.parameters()])
            state = case.algorithm.update(state, g, network.at(k), 0.05)
            vector_to_parameters(state[0].clone(), twin.parameters())
            meddle(model, k)
            meddle(twin, k)
            state = state._replace(x=parameters_to_vector(twin.parameters()).detach())
        return parameters_to_vector(model.parameters()).detach(), parameters_to_vector(twin.parameters()).detach()

    weights = case.weights(graph(N))
    if case.algorithm.keeps_x:
        with pytest.raises(RuntimeError, match=r"changed between two steps.*optimizer.restart\(\)"):
            in_threads(weights, act, timeout=60)
    else:
        for found, expected in in_threads(weights, act, timeout=60):
            assert torch.allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.algorithm.keeps_x])
def test_after_a_restart_a_method_goes_on_from_the_changed_model(name: str):
    def act(network: Peers, *, changed: bool) -> Tensor:
        model = linear()
        optimizer = dsgt.Optimizer(model.parameters(), CASES[name].algorithm, network, lr=0.05)
        for k in range(4):
            if k == 2 and changed:
                with torch.no_grad():
                    model.weight.fill_(1000.0)
                optimizer.restart()
            optimizer.zero_grad()
            backward(model, network.node or 0)
            optimizer.step()
        return model.weight.detach().clone()

    weights = CASES[name].weights(graph(N))
    found = torch.stack(in_threads(weights, lambda network: act(network, changed=True), timeout=60))
    assert found.abs().min() > 100  # and not beside the old model
    assert torch.stack(in_threads(weights, lambda network: act(network, changed=False), timeout=60)).abs().max() < 10


# ---- nodes that do not run the same thing


def told(network: Peers, **different: Any) -> dsgt.Optimizer:
    """Node 1 is told something else."""
    given: dict[str, Any] = {"params": linear().parameters(), "algorithm": dsgt.DSGT(), "lr": 0.1}
    if network.node == 1:
        given |= {key: make() for key, make in different.items()}
    return dsgt.Optimizer(network=network, **given)


@pytest.mark.parametrize(
    ("different", "words"),
    [
        ({"algorithm": dsgt.AugDGM}, r"the method is DSGT\(\) at node 0, but AugDGM\(\) at node 1"),
        ({"lr": lambda: 0.2}, r"lr is \(0\.1,\) at node 0, but \(0\.2,\) at node 1"),
        ({"weight_decay": lambda: 0.3}, "the settings of parameter groups is .*0.3"),
        ({"params": lambda: nn.Linear(4, 1, dtype=F64).parameters()}, "the number of trained parameters is 4 .* 5 at"),
        ({"params": lambda: nn.Linear(3, 1).parameters()}, "the dtype is torch.float64 .* torch.float32 at node 1"),
        ({"params": lambda: reversed(list(linear().parameters()))}, "the parameters is "),
        ({"clip": lambda: 1.0}, "clip is None at node 0, but 1.0 at node 1"),
    ],
)
def test_nodes_that_do_not_run_the_same_thing_are_told_the_difference(different: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        in_threads(PAIR, lambda network: told(network, **different), timeout=60)


def test_a_learning_rate_that_one_node_changes_is_found_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dsgt.optim.optimizer.AGREE_EVERY", 4)

    def act(network: Peers) -> None:
        model = linear()
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
        for k in range(9):
            if k == 5 and network.node == 1:
                optimizer.param_groups[0]["lr"] = 0.05
            optimizer.zero_grad()
            backward(model, network.node or 0)
            optimizer.step()

    with pytest.raises(ValueError, match=r"lr is \(0\.1,\) at node 0, but \(0\.05,\) at node 1"):
        in_threads(PAIR, act, timeout=60)


@pytest.mark.parametrize("algorithm", [dsgt.DSGT(), dsgt.AugDGM()])
def test_methods_that_stay_exact_with_uncoordinated_rates_allow_them(algorithm: dsgt.Algorithm[Any]):
    def act(network: Peers) -> Tensor:
        lr = 0.03 * (1 + (network.node or 0))
        return train(network, steps=900, algorithm=algorithm, lr=lr, uncoordinated=True)

    found = everywhere(act)
    inputs = torch.cat([torch.cat([data(i)[0], torch.ones(12, 1, dtype=F64)], dim=1) for i in range(N)])
    optimum = torch.linalg.lstsq(inputs, torch.cat([data(i)[1] for i in range(N)])).solution[:, 0]
    assert (found - optimum).abs().max() < 1e-6


@pytest.mark.parametrize("algorithm", [dsgt.D2(), dsgt.ExactDiffusion()])
def test_other_methods_refuse_uncoordinated_rates(algorithm: dsgt.Algorithm[Any]):
    with pytest.raises(ValueError, match=r"only where all nodes have one lr; use DSGT or AugDGM"):
        in_threads([[1.0]], lambda network: train(network, algorithm=algorithm, uncoordinated=True))


# ---- unequal starts


def different_start(network: Peers, start: str) -> Tensor:
    model = linear()
    with torch.no_grad():
        model.weight.fill_(float(network.node or 0))
    dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1, start=start)
    return model.weight[0].detach().clone()


@pytest.mark.parametrize(("start", "expected"), [("node 0", [0, 0, 0]), ("mean", [1, 1, 1]), ("own", [0, 1, 2])])
def test_where_the_nodes_start(start: str, expected: list[int], caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "dsgt"):
        found = everywhere(lambda network: different_start(network, start))
    assert found.tolist() == [[float(i)] * 3 for i in expected]
    assert len(caplog.records) == (start != "own")  # said once, in one line
    caplog.clear()
    everywhere(train)
    assert not caplog.records  # equal models


def test_an_unknown_start_is_refused():
    with pytest.raises(ValueError, match="start is 'mine'; expected one of 'node 0', 'mean', 'own'"):
        in_threads([[1.0]], lambda network: different_start(network, "mine"))


def test_large_models_are_told_in_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dsgt.optim.agreement.CHUNK", 2)
    assert everywhere(lambda network: different_start(network, "node 0")).tolist() == [[0.0] * 3] * N


# ---- unequal numbers of steps


def steps_of(network: Peers, batches: int, **options: Any) -> int:
    model = linear()
    optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
    taken = 0
    for _ in optimizer.epoch([None] * batches, **options):
        optimizer.zero_grad()
        backward(model, network.node or 0)
        optimizer.step()
        taken += 1
    return taken


def test_an_epoch_has_as_many_steps_at_every_node_as_the_longest_loader():
    assert in_threads(W, lambda network: steps_of(network, 3 + (network.node or 0)), timeout=60) == [5, 5, 5]
    assert in_threads(W, lambda network: steps_of(network, 3 + (network.node or 0), steps=4), timeout=60) == [4, 4, 4]


def test_loaders_that_do_not_know_their_length_end_together():
    def act(network: Peers) -> int:
        model = linear()
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
        return sum(1 for _ in optimizer.epoch(iter([None] * (3 + (network.node or 0)))))

    assert in_threads(W, act, timeout=60) == [3, 3, 3]


@pytest.mark.parametrize(
    ("batches", "options", "words"),
    [
        (lambda i: 3 * (i == 0), {}, r"the loaders of nodes \[1, 2\] have no batch"),
        (lambda i: 3, {"steps": 0}, "steps is 0; expected at least 1"),
    ],
)
def test_an_epoch_without_batches_is_refused(batches: Callable[[int], int], options: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        in_threads(W, lambda network: steps_of(network, batches(network.node or 0), **options), timeout=60)


# ---- gradients


def test_a_parameter_that_is_not_used_in_a_step_counts_as_zero_if_asked():
    def act(network: Peers, unused: str) -> Tensor:
        model = nn.ModuleDict({"used": linear(), "idle": linear()})
        optimizer = dsgt.Optimizer(model.named_parameters(), dsgt.DSGT(), network, lr=0.1, unused=unused)
        for _ in range(3):
            optimizer.zero_grad()
            backward(model["used"], network.node or 0)
            optimizer.step()
        return parameters_to_vector(model.parameters()).detach()

    found = everywhere(lambda network: act(network, "zero"))
    assert torch.allclose(found[:, :4], everywhere(lambda network: train(network, steps=3)), rtol=1e-12)
    assert (found[:, 4:] == 0.5).all()
    with pytest.raises(RuntimeError, match=r"idle.weight of shape \(1, 3\) has no new gradient.*unused='zero'"):
        in_threads([[1.0]], lambda network: act(network, "error"))
    with pytest.raises(ValueError, match="unused is 'ignore'"):
        in_threads([[1.0]], lambda network: act(network, "ignore"))


@pytest.mark.parametrize("way", ["set", "copy"])
def test_gradients_by_autograd_grad_count_when_they_are_put_into_the_parameters(way: str):
    def act(network: Peers) -> Tensor:
        model = linear()
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
        for _ in range(6):
            optimizer.zero_grad(set_to_none=way == "set")
            inputs, targets = data(network.node or 0)
            loss = (model(inputs) - targets).pow(2).mean()
            for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True):
                if p.grad is None:
                    p.grad = g
                else:
                    p.grad.copy_(g)
            optimizer.step()
        return parameters_to_vector(model.parameters()).detach()

    assert torch.allclose(everywhere(act), everywhere(train), rtol=1e-12)


def test_autograd_grad_alone_is_no_gradient():
    def act(network: Peers) -> None:
        model = linear()
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
        torch.autograd.grad(model(data(0)[0]).sum(), list(model.parameters()))
        optimizer.step()

    with pytest.raises(RuntimeError, match=r"no new gradient: call loss.backward\(\)"):
        in_threads([[1.0]], act)


def test_accumulated_gradients_are_their_sum():
    def act(network: Peers) -> Tensor:
        model = linear()
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
        for _ in range(6):
            optimizer.zero_grad()
            for _ in range(4):
                inputs, targets = data(network.node or 0)
                ((model(inputs) - targets).pow(2).mean() / 4).backward()
            optimizer.step()
        return parameters_to_vector(model.parameters()).detach()

    assert torch.allclose(everywhere(act), everywhere(train), rtol=1e-12)


def test_a_grad_scaler_that_finds_infinities_at_one_node_lets_all_skip():
    def act(network: Peers) -> tuple[int, Tensor]:
        model = linear()
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for k in range(7):
            optimizer.zero_grad()
            inputs, targets = data(network.node or 0)
            loss = (model(inputs) - targets).pow(2).mean()
            scaler.scale(loss * (float("inf") if k == 3 and network.node == 1 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
        return optimizer.round, parameters_to_vector(model.parameters()).detach()

    for (steps, found), expected in zip(in_threads(W, act, timeout=60), everywhere(train), strict=True):
        assert steps == 6
        assert torch.allclose(found, expected, rtol=1e-12)


def test_a_grad_scaler_may_unscale_before_clipping():
    def act(network: Peers) -> Tensor:
        model = linear()
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for _ in range(6):
            optimizer.zero_grad()
            inputs, targets = data(network.node or 0)
            scaler.scale((model(inputs) - targets).pow(2).mean()).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e3)
            scaler.step(optimizer)
            scaler.update()
        return parameters_to_vector(model.parameters()).detach()

    assert torch.allclose(everywhere(act), everywhere(train), rtol=1e-6)  # clip_grad_norm_ computes in float32 scales


def test_data_of_numpy_arrays_and_weights_are_not_shared():
    """A gradient array that the script goes on writing into is the script's own."""

    def scribble(model: nn.Module, k: int) -> None:
        for p in model.parameters():
            p.grad.numpy()[...] = np.nan

    assert torch.equal(everywhere(lambda network: train(network, meddle=scribble)), everywhere(train))


# ---- gradients that somebody else has averaged


class OwnDDP(nn.parallel.DistributedDataParallel):
    """As some trainers have one."""


@pytest.mark.parametrize("kind", [nn.parallel.DistributedDataParallel, OwnDDP])
def test_a_model_in_ddp_is_refused(kind: type[nn.Module]):
    """Built in a process group of one; what counts is that the wrapper holds our parameters."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        wrapped = kind(linear())

        def act(network: Peers) -> None:
            model = wrapped.module if network.node == 0 else linear()
            optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
            backward(model, 0)
            optimizer.step()

        with pytest.raises(RuntimeError, match=r"wrapped in DistributedDataParallel.*dsgt.alone"):
            in_threads(PAIR, act, timeout=60)
    finally:
        torch.distributed.destroy_process_group()


def alike(network: Peers, node: Callable[[int, int], int]) -> None:
    model = linear()
    optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
    for k in range(5):
        optimizer.zero_grad()
        backward(model, node(network.node or 0, k))
        optimizer.step()


@pytest.mark.parametrize(
    ("node", "times"), [(lambda i, k: 0, 1), (lambda i, k: i, 0), (lambda i, k: i if k == 1 else 0, 0)]
)
def test_gradients_that_are_equal_everywhere_three_times_are_warned_about_once(
    node: Callable[[int, int], int], times: int, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING, "dsgt"):
        in_threads(PAIR, lambda network: alike(network, node), timeout=60)
    assert [record.message.startswith("all nodes had the same gradient") for record in caplog.records] == [True] * times


# ---- torch.compile, BatchNorm


def test_a_compiled_model_trains_as_the_model_itself():
    def act(network: Peers) -> Tensor:
        model = linear()
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
        compiled = torch.compile(model, backend="aot_eager")
        for _ in range(6):
            optimizer.zero_grad()
            backward(compiled, network.node or 0)
            optimizer.step()
        return parameters_to_vector(model.parameters()).detach()

    assert torch.allclose(in_threads([[1.0]], act)[0], in_threads([[1.0]], train)[0], rtol=1e-12)


def test_recalibrated_batch_norm_has_the_moments_of_all_nodes_data():
    sizes = [8, 16, 24]
    inputs = [
        3.0 * i + torch.randn(size, 2, dtype=F64, generator=torch.Generator().manual_seed(i))
        for i, size in enumerate(sizes)
    ]

    def act(network: Peers) -> nn.Module:
        model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)).double()
        mine = inputs[network.node or 0]
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1, samples=len(mine))
        return optimizer.average(model, recalibrate=[mine])

    everything = torch.cat(inputs)
    for model in in_threads(W, act, timeout=60):
        assert torch.allclose(model[0].running_mean, everything.mean(dim=0))
        # torch's running variance divides by the size less one, node by node
        spread = sum(x.var(dim=0) * len(x) for x in inputs) / len(everything)
        apart = sum((x.mean(dim=0) - everything.mean(dim=0)) ** 2 * len(x) for x in inputs) / len(everything)
        assert torch.allclose(model[0].running_var, spread + apart)
