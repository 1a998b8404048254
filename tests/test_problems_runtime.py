"""Stochastic gradients of real problems: real nodes under torchrun walk the simulated path."""

from pathlib import Path

import pytest
import torch

from dsgt.networks import Dense
from support.launch import TESTS, launch
from workers.problem_worker import path, problems, table, weights

SAME = {torch.float64: 1e-10, torch.float32: 1e-5}  # rounding of sums in another order, grown over fifteen rounds


@pytest.mark.parametrize("n", [2, 4])
def test_problems_give_the_same_path_and_the_same_metrics_under_torchrun(tmp_path: Path, n: int) -> None:
    finished = launch("torch", n, str(TESTS / "workers" / "problem_worker.py"), str(n), str(tmp_path))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    nodes = [torch.load(tmp_path / f"node{i}.pt") for i in range(n)]
    for name, problem in problems(n).items():
        expected = path(problem, Dense(weights(n)))
        same = SAME[expected.dtype]
        found = torch.stack([node[name, "path"] for node in nodes], dim=1)
        assert (expected[-1] - expected[0]).norm() > 0.01  # it moved
        assert (found - expected).abs().max() < same, name
        rows = table(problem, Dense(weights(n)))
        for node in nodes:
            for mine, theirs in zip(rows, node[name, "table"], strict=True):
                assert mine == pytest.approx(theirs, abs=same)
