"""Schedulers, scalers and samplers are saved and resumed with the training they belong to, or missed aloud."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler as schedulers

import dsgt
from dsgt import checkpoint
from dsgt.checkpoint.also import forgotten
from dsgt.checkpoint.plain import pack, unpack
from dsgt.networks import in_threads
from support.cases import F64

RING = np.array([[0.5, 0.5], [0.5, 0.5]])
STEPS = 13


class Warm:
    """A scheduler of one's own, with a real one inside."""

    def __init__(self, optimizer: Any) -> None:
        self.inner = schedulers.ExponentialLR(optimizer, 0.8)

    def step(self) -> None:
        self.inner.step()

    def state_dict(self) -> dict[str, Any]:
        return {"inner": self.inner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state["inner"])


def sequence(o: Any) -> schedulers.SequentialLR:
    warm, decay = schedulers.LinearLR(o, 0.1, total_iters=4), schedulers.CosineAnnealingLR(o, STEPS)
    return schedulers.SequentialLR(o, [warm, decay], [4])


KINDS: dict[str, Callable[[Any], Any]] = {
    "lambda": lambda o: schedulers.LambdaLR(o, lambda k: 1 / (1 + k)),
    "cosine": lambda o: schedulers.CosineAnnealingLR(o, 5, eta_min=0.001),
    "one cycle": lambda o: schedulers.OneCycleLR(o, max_lr=0.3, total_steps=STEPS + 1, cycle_momentum=False),
    "plateau": lambda o: schedulers.ReduceLROnPlateau(o, factor=0.5, patience=1, threshold=0.5),
    "sequence": sequence,
    "chain": lambda o: schedulers.ChainedScheduler([schedulers.ExponentialLR(o, 0.9), schedulers.StepLR(o, 3)]),
    "milestones": lambda o: schedulers.MultiStepLR(o, [3, 6, 6, 9]),
    "restarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 4, 2),
    "one's own": Warm,
}


def trained(folder: Path | None, make: Callable[[Any], Any], *, cut: int = STEPS) -> list[tuple[list[Tensor], Any]]:
    """Two nodes, until the power fails in step ``cut``; the model and the last learning rate of each."""

    def node(net: Any) -> tuple[list[Tensor], Any]:
        generator = torch.Generator().manual_seed(7 + net.node)
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)).double()
        for p in model.parameters():
            p.data = torch.linspace(-1, 1, p.numel(), dtype=F64).view(p.shape)
        opt = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), net, lr=0.05)
        scheduler = make(opt)
        training = checkpoint.Training(folder, model, opt, also={"scheduler": scheduler}) if folder else None
        steps = range(STEPS) if training is None else training.steps(STEPS, save_every=4)
        data = torch.randn(STEPS, 6, 3, dtype=F64, generator=generator)
        for step in steps:
            if step == cut:
                break  # the steps since the last save are lost
            opt.zero_grad()
            loss = (model(data[step]) - net.node).square().mean()
            loss.backward()
            opt.step()
            scheduler.step(*([1.0] if isinstance(scheduler, schedulers.ReduceLROnPlateau) else []))
        return [p.detach().clone() for p in model.parameters()], opt.param_groups[0]["lr"]

    return in_threads(RING, node)


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_training_has_the_learning_rates_of_the_undisturbed_one(tmp_path: Path, kind: str):
    expected = trained(None, KINDS[kind])
    for cut in (6, 10):
        trained(tmp_path, KINDS[kind], cut=cut)
    found = trained(tmp_path, KINDS[kind])
    for (models, rates), (mine, my_rates) in zip(expected, found, strict=True):
        assert my_rates == rates
        assert all(torch.equal(a, b) for a, b in zip(models, mine, strict=True))
    assert expected[0][1] != 0.05


class Scaler(torch.amp.GradScaler):
    """Like one on a GPU: enabled, and its scale is a tensor."""

    def __init__(self) -> None:
        super().__init__("cpu", init_scale=8.0)


def alone(act: Callable[[Any, nn.Module, dsgt.Optimizer], Any]) -> Any:
    def node(net: Any) -> Any:
        model = nn.Linear(3, 2).double()
        return act(net, model, dsgt.Optimizer(model.parameters(), dsgt.DSGT(), net, lr=0.1))

    return in_threads([[1.0]], node)[0]


def stepped(model: nn.Module, opt: dsgt.Optimizer) -> None:
    opt.zero_grad()
    model(torch.ones(1, 3, dtype=F64)).sum().backward()
    opt.step()


def test_a_scaler_and_a_sampler_are_resumed_too(tmp_path: Path):
    class Sampler:
        def __init__(self) -> None:
            self.place, self.order, self.words = 0, torch.arange(3), np.array([1, 2**32 - 1], dtype=np.uint32)

        def state_dict(self) -> dict[str, Any]:
            return dict(vars(self))

        def load_state_dict(self, state: dict[str, Any]) -> None:
            vars(self).update(state)

    def act(net: Any, model: nn.Module, opt: dsgt.Optimizer) -> None:
        scaler, sampler = Scaler(), Sampler()
        training = checkpoint.Training(tmp_path, model, opt, also={"scaler": scaler, "sampler": sampler})
        assert training.resume() == 0
        scaler.scale(torch.ones(()))
        scaler.update(4.0)
        sampler.place, sampler.order = 17, torch.tensor([2, 0, 1])
        stepped(model, opt)
        training.save()
        fresh, other = Scaler(), Sampler()
        assert checkpoint.Training(tmp_path, model, opt, also={"sampler": other, "scaler": fresh}).resume() == 1
        assert fresh.get_scale() == 4.0
        assert other.place == 17
        assert other.order.tolist() == [2, 0, 1]
        assert other.words.dtype == np.uint32
        assert other.words.tolist() == [1, 2**32 - 1]

    alone(act)


@pytest.mark.parametrize("kind", KINDS)
def test_a_scheduler_that_was_not_given_is_missed_before_the_training(tmp_path: Path, kind: str):
    def act(net: Any, model: nn.Module, opt: dsgt.Optimizer) -> None:
        scheduler = KINDS[kind](opt)
        name = type(getattr(scheduler, "inner", scheduler)).__name__
        with pytest.warns(checkpoint.CheckpointWarning, match=f"^{name} will not be in .* give Training") as said:
            checkpoint.Training(tmp_path, model, opt).resume()
        assert len(said) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            checkpoint.Training(tmp_path, model, opt, also={"any name": scheduler}).resume()
            checkpoint.Training(tmp_path, model, opt, also={}).resume()
            other = dsgt.Optimizer(nn.Linear(2, 2).parameters(), dsgt.DSGT(), net, lr=0.1)
            checkpoint.Training(tmp_path, model, other).resume()

    alone(act)


def test_a_scaler_that_was_not_given_is_missed():
    scaler = Scaler()
    assert forgotten(object(), ()) == ["Scaler"]
    assert forgotten(object(), [scaler]) == []
    off = torch.amp.GradScaler("cpu", enabled=False)
    assert forgotten(object(), [scaler]) == []
    del scaler, off


def test_a_training_is_resumed_with_what_it_was_saved_with(tmp_path: Path):
    def act(net: Any, model: nn.Module, opt: dsgt.Optimizer) -> None:
        scheduler = KINDS["cosine"](opt)
        stepped(model, opt)
        checkpoint.Training(tmp_path, model, opt, also={"scheduler": scheduler}).save()
        with pytest.raises(checkpoint.DifferentError, match="saved with also = scheduler, but here it is None"):
            checkpoint.Training(tmp_path, model, opt, also={}).resume()

    alone(act)


def test_a_state_that_cannot_be_saved_is_refused_before_the_training(tmp_path: Path):
    class Odd:
        def state_dict(self) -> dict[str, Any]:
            return {"rule": [print]}

    def act(net: Any, model: nn.Module, opt: dsgt.Optimizer) -> None:
        training = checkpoint.Training(tmp_path, model, opt, also={"odd": Odd()})
        with pytest.raises(TypeError, match=r"also\.odd\.rule\.0 is a builtin_function_or_method, but a checkpoint"):
            next(training.steps(3, save_every=1))

    alone(act)


def test_plain_values_come_back_with_their_types():
    value = {
        "none": None, "true": True, "n": 2**80, "x": 0.1 + 0.2, "inf": float("inf"), "word": "ß",
        3: (1, [2.0, {"tensor": "no tensor"}]), (1, 2): {1, 2}, "c": Counter({4: 2}), "b": b"\x00\xff",
        "t": torch.tensor([1.0, 2.0], dtype=torch.bfloat16), "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "s": np.float64(0.3), "list": [torch.zeros(2), torch.ones(1)],
    }  # fmt: skip
    tensors: dict[str, Tensor] = {}
    packed = json.loads(json.dumps(pack(value, "v", tensors)))
    found = unpack(packed, tensors)
    assert list(found) == list(value)
    for key in set(value) - {"t", "a", "list"}:
        assert found[key] == value[key]
    assert type(found[3]) is tuple
    assert type(found["c"]) is Counter
    assert torch.equal(found["t"], value["t"])
    assert found["a"].dtype == np.float32
    assert np.array_equal(found["a"], value["a"])
    assert [t.tolist() for t in found["list"]] == [[0, 0], [1]]


FORGED = [{"code": "os.system"}, {"tensor": "absent"}, {"array": ["t", "O", [1]]}, {"table": [1]}, {}, {"a": 1, "b": 2}]


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_state_is_refused(forged: Any):
    with pytest.raises(checkpoint.CheckpointError, match="which no dsgt wrote"):
        unpack([forged], {"t": torch.zeros(8, dtype=torch.uint8)})
