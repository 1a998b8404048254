"""Runs that are interrupted and resumed, in the simulator (test_resume.py) and by real nodes (resume_worker.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import dsgt
from dsgt import data, metrics, problems
from dsgt.core import Network, tensors
from support.cases import F64, Case

ROUNDS, EVERY, LR = 23, 5, 0.02
MEASURED = {name: metric for name, metric in metrics.DEFAULT.items() if name != "seconds"}


class PowerCutError(Exception):
    pass


def cut(at: int) -> Callable[[int], float]:
    """A learning rate that ends the run before round ``at`` is done."""

    def lr(k: int) -> float:
        if k == at:
            raise PowerCutError
        return LR / math.sqrt(1 + k / 10)

    return lr


def problem(n: int) -> problems.Problem:
    """Uneven shards, and epochs of 3 to 4 rounds: checkpoints fall into the middle of them."""
    samples, shards = data.synthetic.least_squares([7 + 2 * i for i in range(n)], 5, dtype=F64)
    return problems.LeastSquares(samples, shards, data.WithoutReplacement(eta=0.3))


def go(case: Case, network: object, n: int, until: int = -1, **options: Any) -> dsgt.Result[Any]:
    return dsgt.run(
        case.algorithm, problem(n), network, rounds=ROUNDS, lr=cut(until), every=4, metrics=MEASURED, seed=3, **options
    )


def interrupted(case: Case, connect: Callable[[], Network], n: int, folder: Path) -> dsgt.Result[Any]:
    """Cut off twice, then finished; every time in a new network, as after a restart."""
    for until in (13, 17):
        try:
            with connect() as network:
                go(case, network, n, until, checkpoint_dir=folder, checkpoint_every=EVERY, resume=True)
                raise AssertionError("it was not cut off")
        except PowerCutError:
            pass
    with connect() as network:
        return go(case, network, n, checkpoint_dir=folder, checkpoint_every=EVERY, resume=True)


def equal(a: dsgt.Result[Any], b: dsgt.Result[Any]) -> bool:
    """To the last bit, messages in flight and metric rows included."""
    x, y = tensors(a.state), tensors(b.state)
    return a.rows == b.rows and x.keys() == y.keys() and all(torch.equal(x[name], y[name]) for name in x)


def trained(net: Network, folder: Path | None, steps: int) -> nn.Module:
    """A model with dropout, batch normalisation, momentum-free schedule and torch's own random numbers."""
    torch.manual_seed(net.node)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 1))
    opt = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), net, lr=0.05, samples=9 + net.node)
    training = dsgt.checkpoint.Training(folder, model, opt) if folder else None
    for step in range(training.resume() if training else 0, steps):
        opt.zero_grad()
        (model(torch.randn(8, 4) + net.node) - 1).pow(2).mean().backward()
        opt.param_groups[0]["lr"] = 0.05 / (1 + step)
        opt.step()
        if training and opt.round % 4 == 0:
            training.save()
    return model
