"""Oracles inside the optimizer: closures are called where and as often as the oracle asks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import dsgt
from dsgt.networks import TorchPeers

F64 = torch.float64
A = torch.randn(12, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
B = A @ torch.tensor([1.0, -2.0, 3.0], dtype=F64) + torch.randn(
    12, dtype=F64, generator=torch.Generator().manual_seed(1)
)


@pytest.fixture(autouse=True, scope="module")
def one_process():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Script:
    """A training script of one node on half of its samples a step; it counts what it is asked."""

    def __init__(self, oracle: Any, algorithm: Any = None, **options: Any) -> None:
        self.model = nn.Linear(3, 1, bias=False).double()
        nn.init.zeros_(self.model.weight)
        self.opt = dsgt.Optimizer(
            self.model.parameters(), algorithm or dsgt.DSGT(), TorchPeers([[1.0]]), lr=0.1, oracle=oracle, **options
        )
        self.called: list[str] = []
        self.points: list[Tensor] = []

    def loss(self, rows: Any, name: str) -> Callable[[], Tensor]:
        def closure() -> Tensor:
            self.called.append(name)
            self.points.append(self.x)
            self.opt.zero_grad()
            loss = ((self.model(A[rows])[:, 0] - B[rows]) ** 2).mean() / 2
            loss.backward()
            return loss

        return closure

    @property
    def x(self) -> Tensor:
        return self.model.weight.detach().clone().flatten()

    def step(self, k: int) -> Any:
        rows = torch.arange(6) + 6 * (k % 2)
        return self.opt.step(self.loss(rows, "batch"), full=self.loss(slice(None), "full"))


def gradient(x: Tensor, rows: Any) -> Tensor:
    return A[rows].T @ (A[rows] @ x - B[rows]) / len(B[rows])


def test_storm_asks_twice_a_step_on_the_same_batch_and_leaves_the_parameters_where_they_were():
    script = Script(dsgt.STORM(0.1))
    x, last, v = torch.zeros(3, dtype=F64), None, None
    for k in range(5):
        rows = torch.arange(6) + 6 * (k % 2)
        loss = script.step(k)
        assert float(loss.detach()) == pytest.approx(
            float(((A[rows] @ x - B[rows]) ** 2).mean() / 2)
        )  # at the model itself
        g = gradient(x, rows)
        v = g if last is None else g + 0.9 * (v - gradient(last, rows))
        last, x = x, x - 0.1 * v
        assert (script.x - x).abs().max() < 1e-14
    assert script.called == ["batch"] * 9
    assert torch.equal(script.points[2], script.points[0])  # of the second step, at the point before it


def test_svrg_calls_the_second_closure_for_its_snapshots():
    script = Script(dsgt.SVRG(every=3))
    for k in range(6):
        script.step(k)
    assert script.called == ["full", "batch", "batch", "batch", "batch"] * 2


@pytest.mark.parametrize(
    "oracle",
    [dsgt.STORM(0.2), dsgt.SVRG(3), dsgt.SARAH(3), dsgt.Momentum(0.5), dsgt.Stale(2.0), dsgt.SVRG(3, loopless=True)],
)
def test_a_saved_optimizer_goes_on_bit_for_bit(oracle: Any):
    whole, half = Script(oracle), Script(oracle)
    for k in range(10):
        whole.step(k)
    for k in range(5):
        half.step(k)
    again = Script(oracle)
    again.opt.load_state_dict(copy.deepcopy(half.opt.state_dict()))
    carried = Script(oracle)  # as torch's own tools carry it
    saved = copy.deepcopy(half.opt.state_dict())
    del saved["dsgt"]
    carried.opt.load_state_dict(saved)
    for k in range(5, 10):
        again.step(k)
        carried.step(k)
    assert torch.equal(again.x, whole.x)
    assert torch.equal(carried.x, whole.x)
    blank = Script(oracle).opt
    assert {n: v.shape for n, v in blank._blank().items()} == {n: v.shape for n, v in whole.opt._held().items()}
    with pytest.raises(ValueError, match="was saved with algorithm"):
        Script(dsgt.STORM(0.7)).opt.load_state_dict(half.opt.state_dict())


def test_weight_decay_is_taken_at_the_point_that_was_asked_for():
    decayed, plain = Script(dsgt.STORM(0.1), weight_decay=0.5), Script(dsgt.STORM(0.1))
    for script in (decayed, plain):
        script.step(0)
    x0, x1 = torch.zeros(3, dtype=F64), decayed.x
    rows = torch.arange(6) + 6
    v0 = gradient(x0, torch.arange(6))
    v1 = gradient(x1, rows) + 0.5 * x1 + 0.9 * (v0 - gradient(x0, rows) - 0.5 * x0)
    decayed.step(1)
    assert (decayed.x - (x1 - 0.1 * v1)).abs().max() < 1e-14


def test_what_an_optimizer_cannot_ask_is_refused_with_the_reason():
    for oracle in (dsgt.SAGA(2), dsgt.SAG(2), dsgt.AVRG(2)):
        with pytest.raises(ValueError, match=r"asks for parts of a node's samples by number.*use dsgt\.run, or .*SVRG"):
            Script(oracle)
    with pytest.raises(ValueError, match="DSA with SAGA"):
        Script(None, dsgt.DSA())
    storm = Script(dsgt.STORM())
    storm.loss(slice(None), "by hand")()
    with pytest.raises(TypeError, match=r"call step\(closure\)"):
        storm.opt.step()
    svrg = Script(dsgt.SVRG())
    with pytest.raises(TypeError, match=r"call step\(closure, full=...\)"):
        svrg.opt.step(svrg.loss(slice(None), "batch"))


def test_published_methods_work_as_they_are_named():
    named, composed = Script(None, dsgt.GTHSGD(beta=0.3)), Script(dsgt.STORM(0.3), dsgt.AugDGM())
    for k in range(4):
        named.step(k)
        composed.step(k)
    assert torch.equal(named.x, composed.x)
