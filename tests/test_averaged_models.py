"""Methods that promise something of another point than the one where they ask for gradients: ``Algorithm.model``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import dsgt
from dsgt import checkpoint
from dsgt.core import Algorithm
from dsgt.networks import Peers, in_threads
from dsgt.topologies.weights import metropolis
from support.cases import CASES, F64, graph, quadratic
from support.interrupted import problem

N = 6
W = metropolis(graph(N))
METHODS = [dsgt.DDA(), dsgt.GradientPush()]
each = pytest.mark.parametrize("method", METHODS, ids=repr)


def states(method: Algorithm[Any], rounds: int, lr: Any = 0.01) -> list[Any]:
    run = dsgt.iterate(method, quadratic(N).stochastic, W, torch.ones(5, dtype=F64), lr)
    return list(itertools.islice(run, rounds + 1))


def test_dual_averaging_takes_home_the_mean_of_its_models():
    found = states(dsgt.DDA(), 30)
    assert torch.allclose(dsgt.DDA().model(found[-1]), torch.stack([s.x for s in found[1:]]).mean(dim=0), rtol=1e-13)


def test_gradient_push_takes_home_the_mean_that_was_published():
    """sum over s >= 2 of (s - 1) z(s), divided by t (t - 1) / 2."""
    found, t = states(dsgt.GradientPush(), 30), 31
    published = sum((s - 1) * found[s - 1].x for s in range(2, t + 1)) / (t * (t - 1) / 2)
    assert torch.allclose(dsgt.GradientPush().model(found[-1]), published, rtol=1e-13)


@each
def test_metrics_the_result_and_the_checkpoint_are_of_the_model_that_is_taken_home(method: Any, tmp_path: Path):
    least = problem(N)
    seen = {"loss": dsgt.metrics.loss, "consensus": dsgt.metrics.consensus}
    run = dsgt.run(method, least, W, rounds=20, lr=0.01, metrics=seen, checkpoint_dir=tmp_path / "run")
    assert torch.equal(run.x, method.model(run.state))
    assert not torch.allclose(run.x, run.state.x)
    mean = run.x.mean(dim=0)
    assert run.column("loss")[-1] == pytest.approx(float(least.loss(mean)), rel=1e-12)
    assert run.column("consensus")[-1] == pytest.approx(float((run.x - mean).norm()) / N**0.5, rel=1e-12)
    assert torch.equal(checkpoint.models(tmp_path / "run")[1], run.x)
    exported = checkpoint.export(tmp_path / "run", tmp_path / "mean.safetensors")
    assert torch.allclose(torch.cat([v.reshape(-1) for v in exported.values()]), mean, rtol=1e-14)


@each
def test_a_run_that_goes_on_takes_home_the_same(method: Any, tmp_path: Path):
    options = {"lr": 0.01, "checkpoint_dir": tmp_path}
    dsgt.run(method, problem(N), W, rounds=9, **options)
    resumed = dsgt.run(method, problem(N), W, rounds=20, resume=True, **options)
    assert torch.equal(resumed.x, dsgt.run(method, problem(N), W, rounds=20, lr=0.01).x)


@each
def test_the_optimizers_average_and_a_trainings_export_are_of_it_too(method: Any, tmp_path: Path):
    def act(network: Peers) -> tuple[Tensor, Tensor, Tensor]:
        model = nn.Sequential(nn.Linear(3, 2, dtype=F64), nn.BatchNorm1d(2, dtype=F64))
        with torch.no_grad():
            model[0].weight.copy_(torch.ones(2, 3))
            model[0].bias.zero_()
        model[1].bias.requires_grad_(False)
        optimizer = dsgt.Optimizer([p for p in model.parameters() if p.requires_grad], method, network, lr=0.1)
        training = checkpoint.Training(tmp_path, model, optimizer)
        assert torch.equal(optimizer.average(model)[0].weight, model[0].weight)  # before the first step
        for k in range(6):
            optimizer.zero_grad()
            inputs = torch.randn(5, 3, dtype=F64, generator=torch.Generator().manual_seed(10 * k + network.node))
            (model(inputs) ** 2 * torch.arange(1.0, 3.0)).sum().backward()
            optimizer.step()
        training.save()
        mean = torch.cat([p.detach().reshape(-1) for p in optimizer.average(model).parameters() if p.requires_grad])
        plain = torch.cat([p.detach().reshape(-1) for p in model.parameters() if p.requires_grad])
        return mean, method.model(optimizer._state), plain

    found = in_threads(metropolis(graph(3)), act, timeout=60)
    expected = torch.stack([mine for _, mine, _ in found]).mean(dim=0)
    assert not torch.allclose(expected, torch.stack([plain for _, _, plain in found]).mean(dim=0))
    assert all(torch.allclose(mean, expected, rtol=1e-14) for mean, _, _ in found)
    checkpoint.export(tmp_path, tmp_path / "mean.safetensors")
    read = load_file(tmp_path / "mean.safetensors")
    trained = ["0.weight", "0.bias", "1.weight"]
    assert torch.allclose(torch.cat([read[name].reshape(-1) for name in trained]), expected, rtol=1e-14)
    assert torch.equal(checkpoint.models(tmp_path)[1], torch.stack([mine for _, mine, _ in found]))


def test_other_methods_take_nothing_else_home_than_the_parameters():
    def act(network: Peers) -> None:
        model = nn.Linear(3, 1)
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1)
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        assert optimizer.taken() == {}

    in_threads([[1.0]], act, timeout=60)


def slope(rounds: Sequence[int], values: Sequence[float]) -> float:
    """The power of k that fits."""
    return float(np.polyfit(np.log(rounds), np.log(values), 1)[0])


def measured(method: Algorithm[Any], grad: Any, weights: Any, lr: Any, error: Callable[[Tensor], Tensor]) -> float:
    """With which power of k the error of the model falls, over a decade and a half."""
    rounds = [300, 1000, 3000, 10_000]
    m = 5 if weights.shape[0] == N else 3
    run = dsgt.iterate(method, grad, weights, torch.zeros(m, dtype=F64), lr)
    seen = [float(error(method.model(s))) for k, s in enumerate(itertools.islice(run, rounds[-1] + 1)) if k in rounds]
    return slope(rounds, seen)


@torch.no_grad()
def test_dual_averaging_falls_like_one_over_the_root_of_k_on_a_function_with_corners():
    """f_i(x) = |x - a_i|_1 for 7 nodes: the median is the only minimiser."""
    n = 7
    a = torch.randn(n, 3, dtype=F64, generator=torch.Generator().manual_seed(3))

    def gap(x: Tensor) -> Tensor:
        return _l1(x, a).max() - _l1(a.median(dim=0).values[None], a)[0]

    power = measured(dsgt.DDA(), lambda x, k: (x - a).sign(), metropolis(graph(n)), lambda k: 1 / (k + 1) ** 0.5, gap)
    assert -0.65 < power < -0.45  # -0.53 seen


def _l1(x: Tensor, a: Tensor) -> Tensor:
    return (x[:, None] - a).abs().sum(dim=-1).mean(dim=1)


@torch.no_grad()
def test_gradient_push_falls_like_one_over_k_on_a_strongly_convex_function():
    least = quadratic(N)
    mu = torch.linalg.eigvalsh(least.H.mean(dim=0)).min().item()
    p = 4 / mu
    P = CASES["gradient-push"].weights(graph(N))
    power = measured(
        dsgt.GradientPush(), least.full, P, lambda k: p / (k + 2 * p * least.L), lambda x: (x - least.optimum).norm()
    )
    assert -1.1 < power < -0.8  # to -1 where the first rounds, with their smaller steps, are forgotten


@pytest.mark.parametrize("box", [False, True])
@torch.no_grad()
def test_projected_models_are_feasible_and_end_at_the_constrained_optimum(box: bool):
    least, radius = quadratic(N), 0.5
    assert least.optimum.norm() > 1
    method = dsgt.DDA(radius, box)
    run = dsgt.iterate(method, least.full, W, torch.full((5,), 0.1, dtype=F64), lambda k: 0.3 / (k + 1) ** 0.5)
    for state in itertools.islice(run, 6000):
        size = state.x.abs().amax(dim=-1) if box else state.x.norm(dim=-1)
        assert size.max() <= radius * (1 + 1e-15)
    x, H, c = torch.zeros(5, dtype=F64), least.H.mean(dim=0), least.c.mean(dim=0)
    for _ in range(5000):
        x = method.project(x - 0.1 * (H @ x - c))
    missed = (method.model(state) - x).norm(dim=-1).max()
    assert missed < 0.2 * (least.optimum - x).norm()


def test_a_point_outside_is_moved_to_the_nearest_one_inside():
    x = torch.tensor([[-3.0, 0.25, 4.0], [0.25, 0.0, -0.25], [0.0, 0.0, 0.0]], dtype=F64)
    box = torch.tensor([[-0.5, 0.25, 0.5], [0.25, 0.0, -0.25], [0.0, 0.0, 0.0]], dtype=F64)
    assert torch.equal(dsgt.DDA(0.5, box=True).project(x), box)
    found = dsgt.DDA(0.5).project(x)
    assert torch.allclose(found[0], 0.5 * x[0] / x[0].norm(), rtol=1e-14)
    assert torch.equal(found[1:], x[1:])
    assert torch.equal(dsgt.DDA().project(x), x)


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan")])
def test_a_radius_is_above_zero(radius: float):
    with pytest.raises(ValueError, match=r"radius of DDA is .*; expected above 0"):
        dsgt.DDA(radius)
