"""What a node remembers is carried by others in torch's own form, and comes back bit for bit."""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

import dsgt
from dsgt.networks import Peers, in_threads
from support.cases import CASES, F64, graph
from support.launch import TESTS, launch

STEPS, HALF = 6, 3
METHODS = {name: case.algorithm for name, case in CASES.items()} | {
    "adamw": dsgt.DSGT(inner=dsgt.Inner(torch.optim.AdamW)),
    "momentum": dsgt.DSGT(inner=dsgt.Inner(torch.optim.SGD, momentum=0.9)),
}


def net() -> nn.Sequential:
    """A frozen layer, and a parameter that is one number."""
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2), nn.PReLU(), nn.Linear(2, 1)).to(F64)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.rand(p.shape, generator=draw, dtype=F64) - 0.3)
    return model.requires_grad_(True)


def made(method: dsgt.Algorithm[Any], network: Peers) -> tuple[nn.Sequential, dsgt.Optimizer]:
    model = net()
    model[1].requires_grad_(False)
    groups = [{"params": model[0].parameters(), "lr": 0.02}, {"params": model[1:].parameters()}]
    return model, dsgt.Optimizer(groups, method, network, lr=0.01)


def train(model: nn.Module, optimizer: dsgt.Optimizer, ks: range) -> Tensor:
    for k in ks:
        draw = torch.Generator().manual_seed(100 * (optimizer.network.node or 0) + k)
        optimizer.zero_grad()
        model(torch.randn(5, 3, generator=draw, dtype=F64)).pow(2).mean().backward()
        optimizer.step()
    return parameters_to_vector(model.parameters()).detach().clone()


def as_others_carry_it(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Only what torch knows of, and other keys for the parameters, as torch.distributed.checkpoint has."""
    names = {key: f"name {key}" for group in state_dict["param_groups"] for key in group["params"]}
    groups = [group | {"params": [names[key] for key in group["params"]]} for group in state_dict["param_groups"]]
    return {"state": {names[key]: table for key, table in state_dict["state"].items()}, "param_groups": groups}


@pytest.mark.parametrize("name", METHODS)
def test_a_state_that_others_have_carried_goes_on_bit_for_bit(name: str):
    method, W = METHODS[name], CASES[name if name in CASES else "dsgt"].weights(graph(3))

    def act(network: Peers) -> tuple[Tensor, Tensor]:
        expected = train(*made(method, network), range(STEPS))
        model, optimizer = made(method, network)
        train(model, optimizer, range(HALF))
        carried = as_others_carry_it(copy.deepcopy(optimizer.state_dict()))
        model, optimizer = made(method, network)
        optimizer.load_state_dict(carried)
        assert optimizer.round == HALF
        assert optimizer.param_groups[0]["lr"] == 0.02
        return train(model, optimizer, range(HALF, STEPS)), expected

    for found, expected in in_threads(W, act, timeout=60):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("name", METHODS)
def test_the_state_has_its_names_and_shapes_before_the_first_step(name: str):
    """torch.distributed.checkpoint loads into the tensors that it finds; no two of them are one."""

    def kinds(optimizer: dsgt.Optimizer) -> list[dict[str, Any]]:
        return [
            {key: (v.shape, v.dtype) if isinstance(v, Tensor) else type(v) for key, v in table.items()}
            for table in optimizer.state.values()
        ]

    def act(network: Peers) -> None:
        model, optimizer = made(METHODS[name], network)
        before, sent = kinds(optimizer), network.traffic.mixings
        places = [v.data_ptr() for t in optimizer.state_dict()["state"].values() for v in t.values() if _is_tensor(v)]
        assert len(set(places)) == len(places)
        assert network.traffic.mixings == sent == 0
        train(model, optimizer, range(1))
        assert kinds(optimizer) == before

    in_threads([[1.0]], act)


def _is_tensor(v: Any) -> bool:
    return isinstance(v, Tensor)


def test_the_tables_hold_the_trackers_of_the_parameters():
    def act(network: Peers) -> None:
        model, optimizer = made(dsgt.DSGT(), network)
        train(model, optimizer, range(2))
        trained = [p for p in model.parameters() if p.requires_grad]
        assert list(optimizer.state) == trained
        for p in trained:
            table = optimizer.state[p]
            assert (table["round"], table["node"], table["nodes"]) == (2, 0, 1)
            assert torch.equal(table["g"], p.grad)
            assert torch.equal(table["Wy"], p.grad)  # alone, the tracker is the gradient

    in_threads([[1.0]], act)


def test_a_state_saved_before_tables_were_kept_is_loaded():
    def act(network: Peers) -> tuple[Tensor, Tensor]:
        expected = train(*made(dsgt.DSGT(), network), range(STEPS))
        model, optimizer = made(dsgt.DSGT(), network)
        train(model, optimizer, range(HALF))
        old = copy.deepcopy(optimizer.state_dict())
        old["state"] = {}
        for group in old["param_groups"]:
            del group["method"]
        model, optimizer = made(dsgt.DSGT(), network)
        optimizer.load_state_dict(old)
        return train(model, optimizer, range(HALF, STEPS)), expected

    for found, expected in in_threads([[0.6, 0.4], [0.4, 0.6]], act, timeout=60):
        assert torch.equal(found, expected)


def spoilt(change: Callable[[dict[str, Any]], None], method: dsgt.Algorithm[Any] | None = None) -> None:
    """Load what was carried and changed on the way."""

    def act(network: Peers) -> None:
        model, optimizer = made(dsgt.DSGT(), network)
        train(model, optimizer, range(HALF))
        carried = as_others_carry_it(optimizer.state_dict())
        change(carried)
        made(method or dsgt.DSGT(), network)[1].load_state_dict(carried)

    in_threads([[1.0]], act)


def of_another_node(carried: dict[str, Any]) -> None:
    for table in carried["state"].values():
        table["node"] = 1


def of_two_nodes(carried: dict[str, Any]) -> None:
    next(iter(carried["state"].values()))["node"] = 1


def without_one(carried: dict[str, Any]) -> None:
    carried["state"].popitem()


def of_fewer(carried: dict[str, Any]) -> None:
    carried["param_groups"][1]["params"].pop()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (of_another_node, "saved with node = 1, but here it is 0.*give every node a name of its own"),
        (of_two_nodes, "parts of node 0 and 1.*give every node a name of its own"),
        (without_one, "not saved by a dsgt.Optimizer"),
        (of_fewer, "of 6 parameters, but here there are 7"),
    ],
)
def test_a_state_that_was_spoilt_on_its_way_is_refused(change: Callable[[dict[str, Any]], None], words: str):
    with pytest.raises(ValueError, match=words):
        spoilt(change)


def test_the_carried_state_of_another_method_is_refused():
    with pytest.raises(ValueError, match="saved with algorithm = DSGT, but here it is AugDGM"):
        spoilt(lambda carried: None, dsgt.AugDGM())


def test_others_see_every_parameter_as_a_tensor_of_its_own(tmp_path: Path):
    """Parts of one storage were refused by safetensors, left out by Accelerate, and made torch.save write all of it."""

    def act(network: Peers) -> None:
        model, optimizer = made(dsgt.DSGT(), network)
        train(model, optimizer, range(2))
        safetensors.torch.save_model(model, str(tmp_path / "model.safetensors"))
        expected = {name: v.clone() for name, v in model.state_dict().items()}
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
        safetensors.torch.load_model(model, tmp_path / "model.safetensors")
        assert all(torch.equal(v, expected[name]) for name, v in model.state_dict().items())
        file = io.BytesIO()
        torch.save(model[2].weight, file)
        assert torch.load(io.BytesIO(file.getvalue())).untyped_storage().nbytes() == 8

    in_threads([[1.0]], act)


def carried_by(tmp_path: Path, *kinds: str) -> None:
    done = launch("torch", 2, str(TESTS / "workers" / "carried_worker.py"), str(tmp_path), *kinds)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(re.findall(r"(\w+) carries node (\d)", done.stdout)) == sorted((k, i) for k in kinds for i in "01")


def test_torchs_distributed_checkpoint_carries_the_state(tmp_path: Path):
    carried_by(tmp_path, "checkpoint")


def test_accelerate_lightning_and_hugging_face_carry_the_state(tmp_path: Path):
    for package in ("accelerate", "lightning", "transformers"):
        pytest.importorskip(package)
    carried_by(tmp_path, "accelerate", "lightning", "trainer")
