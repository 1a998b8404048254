"""The Optimizer as a torch optimizer: on a network of one node it must be plain SGD."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import networkx as nx
import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import dsgt
from dsgt.buffers import Buffers
from dsgt.checkpoint.signals import LOOK_EVERY
from dsgt.core import Algorithm, Mix
from dsgt.engine.in_place import _BackgroundSum
from dsgt.networks import Dense, Peers, TorchPeers, in_threads
from dsgt.networks.peers import PeersMix
from dsgt.topologies.weights import metropolis
from support.cases import CASES, F64, HeavyBall
from support.played import Played


@pytest.fixture(scope="module", autouse=True)
def world_of_one():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def alone():
    with TorchPeers([[1.0]]) as network:
        yield network


def model(seed: int = 0, dtype: torch.dtype = F64) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).to(dtype)


def batches(steps: int, dtype: torch.dtype = F64) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randn(8, 4, dtype=F64, generator=draw).to(dtype) for _ in range(steps)]


def loss_of(net: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return (net(batch) ** 2).mean() + (net(batch) * batch[:, :2]).mean()


def step(net: nn.Module, opt: dsgt.Optimizer, batch: torch.Tensor) -> None:
    opt.zero_grad()
    loss_of(net, batch).backward()
    opt.step()


def lost(*_: object) -> None:
    raise dsgt.NeighbourError(0, 1, 1.0, "pulled")


def equal(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.alone and isinstance(case.mean, HeavyBall)]
)
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_alone_with_a_scheduler_it_is_torchs_sgd(alone, name: str, decay: float):
    ours, theirs, case = model(), model(), CASES[name]
    opt = dsgt.Optimizer(ours.parameters(), case.algorithm, alone, lr=0.1, weight_decay=decay)
    ref = torch.optim.SGD(theirs.parameters(), lr=0.1, weight_decay=decay, momentum=case.mean.beta)
    schedulers = [torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=20) for o in (opt, ref)]
    for batch in batches(20):
        for net, o in ((ours, opt), (theirs, ref)):
            o.zero_grad()
            loss_of(net, batch).backward()
            o.step()
        for s in schedulers:
            s.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=1e-13, atol=1e-15)


class Start(NamedTuple):
    x: torch.Tensor
    start: torch.Tensor


class Anchored(Algorithm[Start]):
    """A method that remembers where it started: X' = W (X - lr (S + X - X_0))."""

    sends: ClassVar[int] = 1
    exact: ClassVar[bool] = False

    def init(self, x: torch.Tensor, mix: Mix) -> Start:
        return Start(x, start=x)

    def update(self, s: Start, g: torch.Tensor, mix: Mix, lr: float) -> Start:
        return Start(mix(s.x - lr * (g + s.x - s.start)), s.start)


CHANGING = {
    name: case.algorithm
    for name, case in CASES.items()
    if not (case.algorithm.needs.static or case.algorithm.needs.average or case.mixes_first)
    if not case.algorithm.equal_starts  # the fellows below are somewhere else from the start
}


@pytest.mark.parametrize("algorithm", [*CHANGING.values(), Anchored()], ids=[*CHANGING, "anchored"])
def test_a_step_is_the_methods_update_over_that_rounds_network(algorithm: Algorithm[Any]):
    """On a network that changes, with a weight of 3 * 10 / (10 + 25 + 25) and a decay that has no weight."""
    Ws = [(1 - a) * np.eye(3) + a / 3 for a in (0.9, 0.5, 0.2)]
    network = Played(Ws, fellow=lambda v: 2 * v + 5)
    ours, twin = model(), model()
    opt = dsgt.Optimizer(ours.parameters(), algorithm, network, lr=0.1, weight_decay=0.3, samples=10)
    state = algorithm.init(parameters_to_vector(twin.parameters()).detach(), network.at(0))
    for k, batch in enumerate(batches(7)):
        step(ours, opt, batch)
        vector_to_parameters(state[0], twin.parameters())
        gradient = torch.autograd.grad(loss_of(twin, batch), list(twin.parameters()))
        g = 0.5 * parameters_to_vector(gradient) + 0.3 * state[0]
        state = algorithm.update(state, g, network.at(k), 0.1)
        assert torch.allclose(parameters_to_vector(ours.parameters()), state[0], rtol=1e-12)  # seven steps' round-off


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.alone])
def test_alone_it_moves_as_the_methods_mean_does(alone, name: str):
    net, gradients, path = model(), [], []
    opt = dsgt.Optimizer(net.parameters(), CASES[name].algorithm, alone, lr=0.1)
    for batch in batches(20):
        opt.zero_grad()
        loss_of(net, batch).backward()
        gradients.append(parameters_to_vector(p.grad for p in net.parameters()).clone())
        path.append(parameters_to_vector(net.parameters()).detach().clone())
        opt.step()
    path.append(parameters_to_vector(net.parameters()).detach())
    expected = CASES[name].mean(path[0], gradients, lambda k: 0.1)
    assert torch.allclose(torch.stack(path), torch.stack(expected), rtol=1e-13, atol=1e-14)


def test_parameters_are_parts_of_one_vector(alone):
    net = model()
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
    for batch in batches(3):
        opt.zero_grad()
        loss_of(net, batch).backward()
        opt.step()
        for p, q in pairwise(net.parameters()):
            assert q.data_ptr() == p.data_ptr() + p.numel() * p.element_size()


@pytest.mark.parametrize(("name", "vectors"), [("dsgt", 4), ("atc-dpsgd", 2)])
def test_a_step_needs_few_vectors(monkeypatch: pytest.MonkeyPatch, name: str, vectors: int):
    """Besides x and the gradients, for a node that hears one other."""
    monkeypatch.setattr("dsgt.buffers.LARGE_BYTES", 1)

    def act(network: Peers) -> int:
        net = model()
        opt = dsgt.Optimizer(net.parameters(), CASES[name].algorithm, network, lr=0.1)
        for batch in batches(8):
            step(net, opt, batch * (network.node + 1))
        return len(network.buffers._kept)

    hop = np.roll(np.eye(4), 1, axis=1)
    assert in_threads(0.6 * np.eye(4) + 0.4 * hop, act) == [vectors] * 4


def test_cleared_gradients_are_none_or_zero_as_in_torch(alone):
    net, (batch,) = model(), batches(1)
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
    step(net, opt, batch)
    opt.zero_grad(set_to_none=False)
    assert all((p.grad == 0).all() for p in net.parameters())
    with pytest.raises(RuntimeError, match="the parameters have no new gradient"):
        opt.step()
    opt.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_a_sparse_gradient_counts_as_a_dense_one(alone):
    found = []
    for sparse in (False, True):
        torch.manual_seed(0)
        net = nn.Embedding(6, 3, sparse=sparse)
        opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
        for word in (1, 4, 1):
            opt.zero_grad()
            net(torch.tensor([word])).pow(2).sum().backward()
            opt.step()
        found.append(net.weight.detach())
    assert torch.equal(*found)


@pytest.mark.parametrize("clear", ["optimizer", "model", "nothing"])
def test_gradients_accumulate_or_clear_as_in_torch_and_the_tracker_keeps_its_own(alone, clear: str):
    """DSGT alone is SGD only while its stored gradient is not overwritten by the next backward."""
    ours, theirs = model(), model()
    opt = dsgt.Optimizer(ours.parameters(), dsgt.DSGT(), alone, lr=0.05)
    ref = torch.optim.SGD(theirs.parameters(), lr=0.05)
    for batch in batches(10):
        for net, o in ((ours, opt), (theirs, ref)):
            if clear == "optimizer":
                o.zero_grad()
            elif clear == "model":
                net.zero_grad()
            for half in batch.chunk(2):
                (loss_of(net, half) / 2).backward()
            o.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=1e-13, atol=1e-15)
        assert torch.allclose(p.grad, q.grad, rtol=1e-13, atol=1e-15)


def test_a_closure_is_called_and_its_loss_returned(alone):
    net, batch = model(), batches(1)[0]
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)

    def closure() -> torch.Tensor:
        opt.zero_grad()
        loss = loss_of(net, batch)
        loss.backward()
        return loss

    assert opt.step(closure) > opt.step(closure)


@dataclass(frozen=True)
class Kept(dsgt.AtcDPSGD):
    beta: float = 0.9


def test_the_state_of_another_parameter_is_refused(alone):
    def build(algorithm: dsgt.Algorithm) -> dsgt.Optimizer:
        return dsgt.Optimizer(model().parameters(), algorithm, alone, lr=0.1)

    saved = build(Kept()).state_dict()
    build(Kept(0.9)).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"saved with algorithm = Kept\(beta=0\.9\), but here it is Kept\(beta=0\.1\)"):
        build(Kept(0.1)).load_state_dict(saved)
    assert build(dsgt.DSGT()).state_dict()["dsgt"]["algorithm"] == "DSGT"  # as states have it that were saved before


@pytest.mark.parametrize("name", CASES)
def test_saved_to_a_file_and_loaded_in_mid_run_it_goes_on_bit_for_bit(alone, name: str):
    def build() -> tuple[nn.Module, dsgt.Optimizer]:
        net = model()
        return net, dsgt.Optimizer(net.parameters(), CASES[name].algorithm, alone, lr=0.1, weight_decay=0.01)

    def train(net: nn.Module, opt: dsgt.Optimizer, some: list[torch.Tensor]) -> None:
        for batch in some:
            opt.zero_grad()
            loss_of(net, batch).backward()
            opt.step()

    undisturbed, opt = build()
    train(undisturbed, opt, batches(20))

    first, opt = build()
    train(first, opt, batches(20)[:9])
    file = io.BytesIO()
    torch.save({"model": first.state_dict(), "optimizer": opt.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    second, opt = build()
    second.load_state_dict(saved["model"])
    opt.load_state_dict(saved["optimizer"])
    assert opt.round == 9
    train(second, opt, batches(20)[9:])
    assert equal(undisturbed, second)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_state_is_a_copy_that_neither_side_can_change(alone, name: str):
    net = model()
    opt = dsgt.Optimizer(net.parameters(), CASES[name].algorithm, alone, lr=0.1)
    *first, after, again = batches(5)
    for batch in first:
        step(net, opt, batch)
    saved = opt.state_dict()
    kept = copy.deepcopy(saved)
    step(net, opt, after)
    step(net, opt, again)
    expected = parameters_to_vector(net.parameters()).detach().clone()
    for field, v in saved["dsgt"]["tensors"].items():
        assert torch.equal(v, kept["dsgt"]["tensors"][field]), field
    opt.load_state_dict(saved)
    for v in saved["dsgt"]["tensors"].values():
        v.fill_(7)
    step(net, opt, after)
    step(net, opt, again)
    assert torch.equal(parameters_to_vector(net.parameters()), expected)


def test_the_learning_rate_and_the_decay_come_back_with_a_saved_state(alone):
    opt = dsgt.Optimizer(model().parameters(), dsgt.DSGT(), alone, lr=0.03, weight_decay=0.2)
    other = dsgt.Optimizer(model().parameters(), dsgt.DSGT(), alone, lr=0.1)
    other.load_state_dict(opt.state_dict())
    assert (other.param_groups[0]["lr"], other.param_groups[0]["weight_decay"]) == (0.03, 0.2)


def test_half_precision_models_keep_a_float32_master_and_tracker(alone):
    net = model(dtype=torch.bfloat16)
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=1e-3)
    before = [p.detach().clone() for p in net.parameters()]
    for batch in batches(200, torch.bfloat16):
        opt.zero_grad()
        loss_of(net, batch).backward()
        opt.step()
    tensors = opt.state_dict()["dsgt"]["tensors"]
    assert {t.dtype for t in tensors.values()} == {torch.float32}
    assert {p.dtype for p in net.parameters()} == {torch.bfloat16}
    # a step of 1e-3 gradients vanishes in a bfloat16 weight; a float32 master adds them up
    assert all((p - q).abs().max() > 0 for p, q in zip(net.parameters(), before, strict=True))


def test_a_half_precision_model_that_was_changed_between_steps_is_stepped_from_there(alone):
    """Loaded, averaged or clipped by the user: the float32 copy follows."""
    net = model(dtype=torch.bfloat16)
    opt = dsgt.Optimizer(net.parameters(), dsgt.AtcDPSGD(), alone, lr=1e-3)
    first, second = batches(2, torch.bfloat16)
    step(net, opt, first)
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(2)
    step(net, opt, second)
    assert all((p - 2).abs().max() < 0.1 for p in net.parameters())


def test_the_mean_model_is_a_copy_with_buffers(alone):
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
    net(torch.randn(16, 4)).sum().backward()
    opt.step()
    mean = opt.average(net)
    assert mean is not net
    for key, value in net.state_dict().items():
        assert torch.equal(mean.state_dict()[key], value)
        assert mean.state_dict()[key].data_ptr() != value.data_ptr()


def test_in_the_mean_model_counters_are_rounded():
    """Two of three nodes have seen one batch more: 1, 2 and 2 are 2 when rounded, and 1 when cut."""
    net = nn.BatchNorm1d(3)
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), Played([np.full((3, 3), 1 / 3)], lambda v: v + 1), lr=0.1)
    net(torch.randn(16, 3))
    assert opt.average(net).num_batches_tracked == 2
    assert torch.allclose(opt.average(net).running_var, net.running_var + 2 / 3)


def test_step_needs_a_new_gradient_for_every_parameter(alone):
    net = model()
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
    with pytest.raises(RuntimeError, match="the parameters have no new gradient: call"):
        opt.step()
    loss_of(net, batches(1)[0]).backward()
    opt.step()
    with pytest.raises(RuntimeError, match="the parameters have no new gradient"):
        opt.step()
    opt.zero_grad()
    net[0](batches(1)[0]).sum().backward()
    with pytest.raises(RuntimeError, match=r"parameter 2 of shape \(2, 3\) has no new gradient"):
        opt.step()


def test_a_gradient_that_is_not_finite_names_the_node_and_the_round(alone):
    net = model()
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
    (loss_of(net, batches(1)[0]) * float("nan")).backward()
    with pytest.raises(dsgt.DivergedError, match="the gradient of node 0 in round 0 is not finite"):
        opt.step()


def test_frozen_parameters_are_left_alone(alone):
    net = model()
    net[0].requires_grad_(False)
    before = net[0].weight.clone()
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
    loss_of(net, batches(1)[0]).backward()
    opt.step()
    assert torch.equal(net[0].weight, before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"params": []}, "0 parameters were given"),
        ({"params": [torch.zeros(2)]}, "1 parameters were given and none of them is trainable"),
        ({"params": [torch.zeros(2, requires_grad=True), torch.zeros(2, dtype=F64, requires_grad=True)]}, "dtypes"),
        ({"lr": 0.0}, r"lr is 0\.0"),
        ({"weight_decay": -1.0}, r"weight_decay is -1\.0"),
        ({"samples": 0}, "samples is 0"),
        ({"network": Dense(metropolis(nx.cycle_graph(4)))}, "Dense holds all nodes, .* or dsgt.run to simulate"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(alone, arguments: dict, message: str):
    given = {"params": list(model().parameters()), "algorithm": dsgt.DSGT(), "network": alone, "lr": 0.1} | arguments
    with pytest.raises(ValueError, match=message):
        dsgt.Optimizer(**given)


def test_a_state_of_another_method_or_size_is_refused(alone):
    net = model()
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
    loss_of(net, batches(1)[0]).backward()
    opt.step()
    other = dsgt.Optimizer(model().parameters(), dsgt.D2(), alone, lr=0.1)
    with pytest.raises(ValueError, match="saved with algorithm = DSGT, but here it is D2"):
        other.load_state_dict(opt.state_dict())
    small = dsgt.Optimizer(nn.Linear(2, 2, dtype=F64).parameters(), dsgt.DSGT(), alone, lr=0.1)
    with pytest.raises(ValueError, match="holds 23 parameters, but here there are 6"):
        small.load_state_dict(opt.state_dict())
    with pytest.raises(ValueError, match="it has no entry"):
        opt.load_state_dict(torch.optim.SGD(model().parameters(), lr=0.1).state_dict())
    with pytest.raises(ValueError, match="give all parameters to the constructor"):
        opt.add_param_group({"params": [torch.zeros(2, requires_grad=True)]})


@pytest.mark.parametrize("name", CASES)
def test_a_large_model_is_trained_as_a_small_one(alone, monkeypatch: pytest.MonkeyPatch, name: str):
    def train() -> list[dict[str, torch.Tensor]]:
        net = model()
        opt = dsgt.Optimizer(net.parameters(), CASES[name].algorithm, alone, lr=0.1, weight_decay=0.1)
        states = []
        for batch in batches(10):
            step(net, opt, batch)
            states.append(opt.state_dict()["dsgt"]["tensors"])
        return states

    small = train()
    monkeypatch.setattr("dsgt.buffers.LARGE_BYTES", 1)
    large = train()
    for a, b in zip(small, large, strict=True):
        for field, value in a.items():
            assert torch.allclose(value, b[field], rtol=0, atol=1e-14), field


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.algorithm.sends >= 1])
def test_after_a_step_that_fails_the_model_is_whole_and_nothing_half_written_is_saved(
    alone, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr("dsgt.buffers.LARGE_BYTES", 1)
    net = model()
    opt = dsgt.Optimizer(net.parameters(), CASES[name].algorithm, alone, lr=0.1)

    first, second = batches(2)
    step(net, opt, first)
    saved, before = copy.deepcopy(opt.state_dict()), parameters_to_vector(net.parameters())
    with monkeypatch.context() as broken:
        for way in ("start", "start_flow", "start_exchange", "__call__", "flow", "into"):
            broken.setattr(PeersMix, way, lost)
        with pytest.raises(dsgt.NeighbourError):
            step(net, opt, second)
    assert torch.equal(parameters_to_vector(net.parameters()), before)
    for act in (opt.step, opt.state_dict):
        with pytest.raises(RuntimeError, match="step of round 1 failed"):
            act()
    opt.load_state_dict(saved)
    step(net, opt, second)
    assert not torch.equal(parameters_to_vector(net.parameters()), before)


def test_where_the_second_message_fails_the_model_is_that_after_the_step(alone, monkeypatch: pytest.MonkeyPatch):
    """DSGT's x has arrived when y cannot be sent."""
    monkeypatch.setattr("dsgt.buffers.LARGE_BYTES", 1)
    net, twin = model(), model()
    opt, whole = (dsgt.Optimizer(n.parameters(), dsgt.DSGT(), alone, lr=0.1) for n in (net, twin))
    for batch in batches(2):
        step(net, opt, batch)
        step(twin, whole, batch)
    (third,) = batches(3)[2:]
    with monkeypatch.context() as broken:
        broken.setattr(PeersMix, "start", lost)
        with pytest.raises(dsgt.NeighbourError):
            step(net, opt, third)
    step(twin, whole, third)
    assert equal(net, twin)


def clear_by_data(net: nn.Module) -> None:
    for p in net.parameters():
        if p.grad is not None:
            p.grad.data.zero_()


def clear_by_numpy(net: nn.Module) -> None:
    for p in net.parameters():
        if p.grad is not None:
            p.grad.numpy()[...] = 0


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "clear",
    [
        lambda net: net.zero_grad(),
        lambda net: net.zero_grad(set_to_none=False),
        clear_by_data,
        clear_by_numpy,
    ],
    ids=["none", "zero", "data", "numpy"],
)
def test_gradients_may_be_cleared_in_any_way(alone, name: str, clear: Callable[[nn.Module], Any]):
    """What a tracker will subtract in the next step is not the memory that the script clears."""

    net, twin, algorithm = model(), model(), CASES[name].algorithm
    opt = dsgt.Optimizer(net.parameters(), algorithm, alone, lr=0.1)
    state = algorithm.init(parameters_to_vector(twin.parameters()).detach(), alone.at(0))
    for k, batch in enumerate(batches(4)):
        clear(net)
        loss_of(net, batch).backward()
        opt.step()
        vector_to_parameters(state[0], twin.parameters())
        gradient = torch.autograd.grad(loss_of(twin, batch), list(twin.parameters()))
        state = algorithm.update(state, parameters_to_vector(gradient), alone.at(k), 0.1)
    assert torch.allclose(parameters_to_vector(net.parameters()), state[0], rtol=1e-12)  # four steps' round-off


@pytest.mark.parametrize("name", ["dsgt", "gnsd", "extra"])
@pytest.mark.parametrize("looked_at", [False, True])
def test_what_is_added_up_ahead_is_what_would_be_added_up_later(
    alone, monkeypatch: pytest.MonkeyPatch, name: str, looked_at: bool
):
    """W y - s, in the background as soon as W y has arrived: the same bits, saved and loaded in between or not."""
    monkeypatch.setattr("dsgt.buffers.LARGE_BYTES", 1)
    monkeypatch.setattr("dsgt.networks.peers.BACKGROUND_FROM", 1)
    monkeypatch.setattr("dsgt.networks.flights.Exchange.moves", True)  # though nobody is heard
    begun: list[bool] = []
    used: list[bool] = []
    concerns = _BackgroundSum.concerns

    def noted(sum: _BackgroundSum, state: Any) -> bool:
        used.append(concerns(sum, state))
        return used[-1]

    monkeypatch.setattr(_BackgroundSum, "concerns", noted)

    def train(*, ahead: bool) -> torch.Tensor:
        net = model()
        opt = dsgt.Optimizer(net.parameters(), CASES[name].algorithm, alone, lr=0.1)
        with monkeypatch.context() as patched:
            if not ahead:
                patched.setattr("dsgt.engine.in_place._can_begin", lambda ahead, state: False)
            for k, batch in enumerate(batches(12)):
                step(net, opt, batch)
                begun.append(bool(opt._update._in_place._begun))
                if looked_at and k % 3 == 0:
                    opt.load_state_dict(copy.deepcopy(opt.state_dict()))
                if k == 7:
                    opt.param_groups[0]["lr"] = 0.05
        return parameters_to_vector(net.parameters())

    expected = train(ahead=False)
    assert not any(begun)
    assert torch.equal(train(ahead=True), expected)
    assert sum(begun) == 12
    assert used == [looked_at is False or k % 3 != 0 for k in range(11)]  # a loaded state is another one


def test_real_nodes_mix_into_a_given_place():
    v = torch.randn(5, dtype=F64)
    out = torch.zeros_like(v)
    with TorchPeers([[1.0]]) as network:
        found = network.at(0).into(v, out)
        assert found.data_ptr() == out.data_ptr()
        assert torch.equal(out, network(v))


def test_training_that_failed_in_a_step_resumes_from_its_checkpoint(
    alone, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    net = model()
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
    training = dsgt.checkpoint.Training(tmp_path, net, opt)

    first, second = batches(2)
    step(net, opt, first)
    training.save()
    with monkeypatch.context() as broken:
        broken.setattr(PeersMix, "__call__", lost)
        with pytest.raises(dsgt.NeighbourError):
            step(net, opt, second)
    assert training.resume() == 1
    step(net, opt, second)
    assert opt.round == 2


def test_a_resumed_training_ends_like_an_undisturbed_one(alone, tmp_path: Path):
    """With dropout, a normalisation that remembers, a schedule of the learning rate, and the network's traffic."""

    def train(folder: Path, *ends: int) -> tuple[dict[str, torch.Tensor], int]:
        for until in ends:
            torch.manual_seed(0)
            alone.traffic.mixings = 0
            net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 1)).double()
            opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
            for _ in dsgt.checkpoint.Training(folder, net, opt).steps(until, save_every=2):
                opt.zero_grad()
                net(torch.randn(8, 4, dtype=F64)).pow(2).mean().backward()
                opt.step()
                opt.param_groups[0]["lr"] *= 0.9
        return net.state_dict(), alone.traffic.mixings

    (expected, sent), (found, sent_too) = train(tmp_path / "one", 9), train(tmp_path / "parts", 3, 5, 9)
    assert all(torch.equal(v, found[name]) for name, v in expected.items())
    assert sent == sent_too


def test_what_a_training_was_given_to_keep_comes_back(alone, tmp_path: Path):
    net = model()
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), alone, lr=0.1)
    training = dsgt.checkpoint.Training(tmp_path, net, opt)
    assert training.extra() == {}
    for k, batch in enumerate(batches(2)):
        step(net, opt, batch)
        training.save({"epoch": k, "best": [0.5, None]})
    assert dsgt.checkpoint.Training(tmp_path, net, opt).extra() == {"epoch": 1, "best": [0.5, None]}


def test_a_training_asks_the_other_nodes_only_now_and_then_whether_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Asking costs a message to everyone."""
    monkeypatch.setattr("dsgt.optim.guards.LOOKS", 0)  # gradients are compared in the first rounds, too
    net, network = model(), Played([np.full((3, 3), 1 / 3)])
    opt = dsgt.Optimizer(net.parameters(), dsgt.DSGT(), network, lr=0.1)
    training, asked, before = dsgt.checkpoint.Training(tmp_path, net, opt), [], None
    for done in training.steps(2 * LOOK_EVERY + 3, save_every=1000):
        if before not in (None, network.asked):
            asked.append(done)
        before = network.asked
        step(net, opt, batches(1)[0])
    assert asked == [LOOK_EVERY, 2 * LOOK_EVERY]


def test_memory_of_a_size_that_is_not_asked_for_any_more_is_given_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dsgt.buffers.LARGE_BYTES", 1)
    buffers, small, large = Buffers(), torch.zeros(10), torch.zeros(11)
    for _ in range(3):
        buffers.scratch(small)
        buffers.scratch(large)
    assert len(buffers._kept) == 2
    for _ in range(130):
        buffers.scratch(small)
    assert [b.numel() for b in buffers._kept.values()] == [10]


def test_memory_is_used_again_once_nobody_holds_a_part_of_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dsgt.buffers.LARGE_BYTES", 1)
    buffers, x = Buffers(), torch.randn(10)
    first = buffers.scratch(x)
    kept = buffers.scratch(x).copy_(x)[3:5]  # a view keeps all of its memory
    place = first.data_ptr()
    assert buffers.may_overwrite(first)
    alias = first.detach()
    assert not buffers.may_overwrite(first)
    del first, alias
    second = buffers.scratch(x)
    assert second.data_ptr() == place
    assert buffers.scratch(x).data_ptr() not in (place, kept.data_ptr() - 3 * x.element_size())
    assert torch.equal(kept, x[3:5])
    assert not buffers.may_overwrite(x)
