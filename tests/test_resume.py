"""A run that is interrupted and resumed equals the undisturbed one bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import dsgt
from cases import CASES, graph
from dsgt import checkpoint, metrics
from dsgt.networks import Clocked, Cycle, Dense
from interrupted import MEASURED, ROUNDS, equal, go, interrupted, problem
from launch import HERE, launch

N = 5


def weights(name: str) -> np.ndarray:
    return CASES[name].weights(graph(N))


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_equals_the_undisturbed_one(tmp_path: Path, name: str):
    expected = go(CASES[name], weights(name), N)
    found = interrupted(CASES[name], lambda: Dense(weights(name)), N, tmp_path)
    assert equal(found, expected)
    assert found.column("round") == [0, 4, 8, 12, 16, 20, 23]
    assert checkpoint.latest(tmp_path) == ROUNDS


@pytest.mark.parametrize(("kind", "n"), [("torch", 2), ("mpi", 2)])
def test_real_nodes_resume_every_method_and_the_optimizer_exactly(tmp_path: Path, kind: str, n: int):
    finished = launch(kind, n, str(HERE / "interrupted.py"), kind, str(tmp_path))
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_a_changing_network_goes_on_with_the_right_member(tmp_path: Path):
    lazy = (np.eye(N) + weights("dsgt")) / 2
    expected = go(CASES["dsgt"], Cycle([weights("dsgt"), lazy, lazy @ lazy]), N)
    found = interrupted(CASES["dsgt"], lambda: Cycle([weights("dsgt"), lazy, lazy @ lazy]), N, tmp_path)
    assert equal(found, expected)


@pytest.mark.parametrize("name", CASES)
def test_a_virtual_clock_goes_on_from_the_time_it_showed_and_saving_takes_none(name: str, tmp_path: Path):
    def times(rounds: int, **options: object) -> list[float]:
        network = Clocked(weights(name), compute=[1.0, 2.0, 3.0, 1.0, 1.0], latency=0.7, bandwidth=100)
        return dsgt.run(
            CASES[name].algorithm, problem(N), network, rounds=rounds, lr=0.01, every=1,
            metrics={"t": metrics.virtual_seconds}, **options,
        ).column("t")  # fmt: skip

    kept = {"checkpoint_dir": tmp_path, "checkpoint_every": 3, "resume": True}
    assert times(20) == [times(k, **kept) for k in (7, 10, 20)][-1]


def test_a_finished_run_is_returned_without_running_and_can_be_prolonged(tmp_path: Path):
    case = CASES["dsgt"]
    short = {"rounds": 10, "lr": 0.01, "every": 4, "metrics": MEASURED, "checkpoint_dir": tmp_path}
    first = dsgt.run(case.algorithm, problem(N), weights("dsgt"), **short)
    again = dsgt.run(case.algorithm, problem(N), weights("dsgt"), **short, resume=True)
    assert equal(first, again)
    longer = dsgt.run(case.algorithm, problem(N), weights("dsgt"), **short | {"rounds": 20}, resume=True)
    assert longer.column("round") == [0, 4, 8, 12, 16, 20]
    undisturbed = dsgt.run(
        case.algorithm, problem(N), weights("dsgt"), rounds=20, lr=0.01, every=4, metrics=MEASURED
    )  # fmt: skip
    assert equal(longer, undisturbed)
    with pytest.raises(checkpoint.DifferentError, match="round 20, but rounds is 10"):
        dsgt.run(case.algorithm, problem(N), weights("dsgt"), **short, resume=True)


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path):
    go(CASES["dsgt"], weights("dsgt"), N, checkpoint_dir=tmp_path)
    with pytest.raises(checkpoint.CheckpointError, match="holds checkpoints of an earlier run: go on from them with"):
        go(CASES["dsgt"], weights("dsgt"), N, checkpoint_dir=tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"algorithm": dsgt.GNSD()}, r"method = DSGT\(\), but here it is GNSD\(\)"),
        ({"network": (np.eye(N) + weights("dsgt")) / 2}, "saved with W = "),
        ({"network": weights("dsgt")[:4, :4] + np.diag(1 - weights("dsgt")[:4, :4].sum(0))}, "network of 5 nodes"),
        ({"x0": torch.zeros(5)}, r"saved with start = float64 \(5, 5\) .*, but here it is float32"),
        ({"seed": 8}, "saved with seed = 3, but here it is 8"),
        ({"metrics": {"loss": metrics.loss}}, "saved with metrics = loss, gradient_norm"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_by_name(tmp_path: Path, change: dict[str, object], words: str):
    go(CASES["dsgt"], weights("dsgt"), N, checkpoint_dir=tmp_path)
    options = {"algorithm": dsgt.DSGT(), "network": weights("dsgt"), "seed": 3, "metrics": MEASURED} | change
    given = options.pop("algorithm"), problem(len(options["network"])), options.pop("network")
    with pytest.raises(checkpoint.DifferentError, match=words):
        dsgt.run(*given, rounds=ROUNDS, lr=0.01, checkpoint_dir=tmp_path, resume=True, **options)


def test_what_cannot_work_is_refused_before_any_work():
    with pytest.raises(ValueError, match="resume is True, but there is no checkpoint_dir"):
        go(CASES["dsgt"], weights("dsgt"), N, resume=True)
    with pytest.raises(ValueError, match="checkpoint_every is 5 and checkpoint_dir None; give a folder"):
        go(CASES["dsgt"], weights("dsgt"), N, checkpoint_every=5)
