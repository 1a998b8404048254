"""The asynchronous optimizer: zero_grad, backward, step as everyone writes it, and the node's own arithmetic."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dsgt
from dsgt.asynchronous import real as runtime
from dsgt.asynchronous import recorded
from dsgt.asynchronous.algorithms import ADPSGD, ASYNCHRONOUS
from dsgt.asynchronous.mail import Links
from dsgt.asynchronous.node import Node
from dsgt.asynchronous.peers import AsyncPeers
from dsgt.networks.zeromq import Mailbox
from dsgt.optim import asynchronous
from dsgt.optim.asynchronous import AsyncOptimizer
from dsgt.topologies import metropolis, ring
from support.town import Box, Town, together

NODES = 3
W = metropolis(ring(NODES))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"AGAIN": 0.01, "GLANCE": 0.01, "GRACE": 0.02}.items():
        monkeypatch.setattr(runtime, name, seconds)
    monkeypatch.setattr(asynchronous, "refuse_ddp", lambda _: None)  # it looks at every object there is


class TownPeers(AsyncPeers):
    """Threads of this process instead of processes."""

    def __init__(self, town: Town, node: int, weights: Any = W) -> None:
        self.weights, self.timeout = dsgt.topologies.Fixed(weights), 60.0
        self.nodes, self.node, self._town = NODES, node, town

    def _listen(self, longest: int, neighbours: set[int]) -> Mailbox:
        return Box(self._town, self.node)  # type: ignore[return-value]


def model_of() -> nn.Linear:
    model = nn.Linear(4, 1)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
    return model


def loss_of(model: nn.Module, i: int, k: int) -> Tensor:
    x = torch.sin(torch.arange(8.0).reshape(2, 4) + 7 * i + k)
    return ((model(x).squeeze(-1) - i) ** 2).mean()


def trained(
    town: Town, name: str, i: int, folder: Path, models: dict[int, nn.Module], steps: int, **options: Any
) -> None:
    model = models[i] = model_of()
    recorders: list[recorded.Recorder] = []
    path = recorded.path_of(folder / "run.log", i)
    peers = TownPeers(town, i)
    optimizer = AsyncOptimizer(
        model.parameters(), ASYNCHRONOUS[name](), peers, lr=0.05, **options,
        prepared=lambda node: recorders.append(recorded.Recorder(path, node, {})),
    )  # fmt: skip
    with optimizer:
        for k in range(steps):
            assert optimizer.k == k
            optimizer.zero_grad()
            loss_of(model, i, k).backward()
            optimizer.step()
    recorders[0].close(whole=True)


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_it_moves_the_model_as_the_node_of_the_method_moves(name: str, tmp_path: Path):
    """The replay computes the gradients itself, of the mean loss by hand: weight n * share, and weight decay."""
    town, models = Town(), {}
    shares = [0.5, 0.3, 0.2]
    together(
        [
            partial(trained, town, name, i, tmp_path, models, 4 + 3 * i, share=shares[i], weight_decay=0.1)
            for i in range(NODES)
        ]
    )
    records = [recorded.read(recorded.path_of(tmp_path / "run.log", i), i) for i in range(NODES)]

    def flat(model: nn.Module) -> Tensor:
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    def gradient(i: int, x: Tensor, k: int) -> Tensor:
        model = model_of()
        nn.utils.vector_to_parameters(x, model.parameters())
        grads = torch.autograd.grad(loss_of(model, i, k), list(model.parameters()))
        return (torch.cat([g.reshape(-1) for g in grads]) * (NODES * shares[i])).add_(x, alpha=0.1)

    links = [Links.of(dsgt.topologies.Fixed(W), i) for i in range(NODES)]
    nodes = [Node(ASYNCHRONOUS[name](), links[i], flat(model_of()), lambda k: 0.05) for i in range(NODES)]
    assert recorded.replayed(nodes, records, gradient) == 4 + 7 + 10 + NODES
    for i, node in enumerate(nodes):
        assert torch.equal(flat(models[i]), node.state[0])


def alone(**options: Any) -> tuple[nn.Module, AsyncOptimizer]:
    """A node that has come back already, so that nobody is waited for."""
    model = model_of()
    options = {"lr": 0.1} | options
    peers = TownPeers(Town(), 0)
    before = peers.take_part
    peers.take_part = lambda *args, **kwargs: _returned(before(*args, **kwargs))  # type: ignore[method-assign]
    return model, AsyncOptimizer(model.parameters(), ADPSGD(), peers, **options)


def _returned(one: runtime.RealNode) -> runtime.RealNode:
    one.phase, one._returned = runtime.RUNNING, True
    return one


def test_what_would_be_silently_wrong_is_refused():
    model, optimizer = alone()
    with pytest.raises(RuntimeError, match="no new gradient"):
        optimizer.step()
    loss_of(model, 0, 0).backward()
    optimizer.step()
    with torch.no_grad():
        model.weight.add_(1)
    loss_of(model, 0, 1).backward()
    with pytest.raises(RuntimeError, match="changed between two steps"):
        optimizer.step()
    with pytest.raises(RuntimeError, match="checkpoint_dir"):
        optimizer.state_dict()
    with pytest.raises(RuntimeError, match="checkpoint_dir"):
        optimizer.load_state_dict({})
    with pytest.raises(ValueError, match="give all parameters to the constructor"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    optimizer.real.close()


def test_a_model_whose_gradients_are_averaged_already_is_refused(monkeypatch: pytest.MonkeyPatch):
    looked: list[Any] = []
    monkeypatch.setattr(asynchronous, "refuse_ddp", looked.append)
    model, optimizer = alone()
    assert [[p.shape for p in some] for some in looked] == [[p.shape for p in model.parameters()]]
    optimizer.real.close()


def test_a_scheduler_changes_the_step():
    model, optimizer = alone(lr=0.5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 0.0 if k else 1.0)
    for moved in (True, False):
        before = model.weight.detach().clone()
        optimizer.zero_grad()
        loss_of(model, 0, 0).backward()
        optimizer.step()
        schedule.step()
        assert torch.equal(model.weight, before) != moved
    optimizer.real.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [({"share": 0.0}, "share is 0"), ({"share": 1.5}, "share is 1.5"), ({"lr": -1.0}, "lr is -1"),
     ({"weight_decay": -1.0}, "weight_decay is -1"), ({"unused": "maybe"}, "unused is 'maybe'")],
)  # fmt: skip
def test_settings_that_cannot_be_meant_are_refused(options: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        alone(**options)


def test_a_synchronous_method_is_sent_to_its_own_optimizer():
    with pytest.raises(TypeError, match=r"DSGT is no asynchronous method; use dsgt\.Optimizer"):
        AsyncOptimizer(model_of().parameters(), dsgt.DSGT(), TownPeers(Town(), 0), lr=0.1)  # type: ignore[arg-type]


def test_a_node_that_is_killed_goes_on_from_its_own_checkpoint(tmp_path: Path):
    """Node 1 dies after 10 steps; the model that comes back is that of its 8th."""
    town, models = Town(), {}
    at_8: list[Tensor] = []
    back: list[tuple[int, Tensor]] = []

    def born(i: int) -> AsyncOptimizer:
        model = models[i] = model_of()
        kept = {"checkpoint_dir": tmp_path, "checkpoint_every": 4, "resume": True}
        return AsyncOptimizer(model.parameters(), ASYNCHRONOUS["appg"](), TownPeers(town, i), lr=0.05, **kept)

    def steps(optimizer: AsyncOptimizer, i: int, until: int) -> None:
        while optimizer.k < until:
            optimizer.zero_grad()
            loss_of(models[i], i, optimizer.k).backward()
            optimizer.step()

    def life(i: int) -> None:
        optimizer = born(i)
        if i == 1:
            steps(optimizer, i, 8)
            at_8.append(models[i].weight.detach().clone())
            steps(optimizer, i, 10)
            optimizer = born(i)
            back.append((optimizer.k, models[i].weight.detach().clone()))
        steps(optimizer, i, 12)
        optimizer.finish()

    together([partial(life, i) for i in range(NODES)])
    assert back[0][0] == 8
    assert torch.equal(back[0][1], at_8[0])
    with pytest.raises(ValueError, match="is there already; resume from it"):
        AsyncOptimizer(
            model_of().parameters(), ASYNCHRONOUS["appg"](), TownPeers(town, 0), lr=0.05, checkpoint_dir=tmp_path
        )


def test_peers_that_do_not_fit_are_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match="was not started by torchrun, and no peers were given"):
        AsyncPeers(W)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "5")
    with pytest.raises(ValueError, match="the weights have 3 nodes, but there are 5 processes"):
        AsyncPeers(W)
    with pytest.raises(ValueError, match="without peers"):
        AsyncPeers(W, node=0)
