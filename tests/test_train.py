"""dsgt train: the same experiment in the simulator, under torchrun and under mpiexec."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dsgt
from dsgt.cli import app
from dsgt.commands import train
from dsgt.comparison import Job, Settings
from dsgt.comparison.measured import APART
from dsgt.networks.launched import Launched, launched
from support.launch import TESTS, launch

WORKER = str(TESTS / "workers" / "train_worker.py")
FLAGS = ["dsgt", "--weights", "lazy-metropolis", "--partition", "dirichlet:0.3", "--batch", "300", "--lr", "0.3"]
"""Weights that do not average everyone, so that neighbours talk to each other."""


def rows_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def rows_of_job(nodes: int, epochs: float) -> list[dict[str, Any]]:
    """What the comparison's own run gives, on its simulated network."""
    options = Settings(nodes=nodes, weights="lazy-metropolis", batch=300, epochs=epochs, dtype="float64")
    of_comparisons = ("virtual_seconds", APART)
    return [
        {key: value for key, value in row.items() if not key.startswith(of_comparisons)}
        for row in Job(options, "dsgt", 0.3, 0)()
    ]


def assert_agree(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.keys() == b.keys()
        numbers = [key for key in a if key != "method"]
        # double precision; sums in another order differ in the last digits, and 10 rounds do not make them grow
        assert [a[key] for key in numbers] == pytest.approx([b[key] for key in numbers], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", ["torch", "mpi"])
def test_real_nodes_give_the_numbers_of_the_simulator(tmp_path: Path, kind: str):
    finished = launch(kind, 2, WORKER, "train", *FLAGS, "--epochs", "2", "--out", str(tmp_path))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.count("2 nodes, a process each") == 1, "only one process may speak"
    assert finished.stdout.count("lazy-metropolis weights, lr 0.3, seed 0, 10 rounds") == 1
    assert_agree(rows_in(tmp_path), rows_of_job(2, 2.0))
    assert json.loads((tmp_path / "settings.json").read_text())["backend"] == kind


def test_a_wrong_flag_is_told_once_and_before_work_starts(tmp_path: Path):
    finished = launch("mpi", 2, WORKER, "train", *FLAGS, "--nodes", "5", "--out", str(tmp_path / "out"))
    assert finished.returncode == 2
    assert (finished.stdout + finished.stderr).count("error: nodes is 5, but this job has 2 processes, and each") == 1
    assert not (tmp_path / "out").exists()


def invoke(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["train", *words])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, re.sub(r"\s+", " ", found.output)


def test_without_a_launcher_all_nodes_are_simulated_and_it_says_so(tmp_path: Path):
    code, says = invoke(*FLAGS, "--nodes", "3", "--epochs", "2", "--dtype", "float64", "--out", str(tmp_path))
    assert code == 0, says
    assert "Simulating 3 nodes in this process" in says
    assert_agree(rows_in(tmp_path), rows_of_job(3, 2.0))
    last = rows_in(tmp_path)[-1]
    assert f"{last['loss']:.4f}" in says


def test_a_resumed_simulation_ends_as_the_undisturbed_one(tmp_path: Path):
    flags = [*FLAGS, "--nodes", "3"]
    assert invoke(*flags, "--epochs", "2", "--out", str(tmp_path / "whole"))[0] == 0
    saved = ["--checkpoint-dir", str(tmp_path / "c"), "--out", str(tmp_path / "parts")]
    assert invoke(*flags, "--epochs", "1", *saved)[0] == 0
    code, says = invoke(*flags, "--epochs", "2", *saved)
    assert code == 2
    assert "holds checkpoints of an earlier run" in says
    assert invoke(*flags, "--epochs", "2", *saved, "--resume")[0] == 0
    assert rows_in(tmp_path / "parts") == rows_in(tmp_path / "whole")
    code, says = invoke(*flags, "--epochs", "2", *saved, "--resume", "--batch", "299")
    assert code == 2
    assert "was saved with epochs_per_round = " in says


def test_a_run_that_diverges_ends_with_what_to_do_and_keeps_its_rows(tmp_path: Path):
    code, says = invoke(*FLAGS, "--nodes", "3", "--epochs", "2", "--out", str(tmp_path), "--loss-limit", "0.1")
    assert code == 1
    assert "above loss_limit = 0.1, and worst at node" in says
    assert [(row["round"], row["loss"], row["diverged"]) for row in rows_in(tmp_path)] == [(0, math.inf, True)]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["dsgd"], "there is no method called 'dsgd'; did you mean"),
        (["dsgt", "--lr", "-1"], "lrs is -1.0: input should be greater than 0"),
        (["dsgt", "--graph", "moebius"], "there is no graph called 'moebius'"),
        (["dsgt", "--backend", "mip"], "there is no backend called 'mip'; did you mean 'mpi'"),
        (["dsgt", "--backend", "mpi"], "was not started so: start it with mpiexec -n N"),
        (["dsgt", "--timeout", "0"], "timeout is 0; give the seconds to wait for a neighbour"),
        (["dsgt", "--loss-limit", "nan"], "loss-limit is nan; give the loss above which"),
        (["dsgt", "--resume"], "need a folder: give --checkpoint-dir"),
        (["dsgt", "--checkpoint-every", "0", "--checkpoint-dir", "x"], "checkpoint-every is 0; it counts rounds"),
        (["dsgt", "--data", "cifar10", "--data-dir", "nowhere"], "CIFAR-10 is not in nowhere"),
        (["dsgt", "--out", "/proc/nothing/here"], "No such file or directory: '/proc/nothing"),
        (["dsgt", "--config", "nowhere.toml"], "there is no file of settings nowhere.toml"),
    ],
)
def test_every_bad_flag_is_refused_before_work_starts(tmp_path: Path, monkeypatch, flags: list[str], words: str):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "run", None)  # work would fail otherwise
    code, says = invoke(*flags)
    assert code == 2, says
    assert words in says


def test_the_environment_tells_who_started_a_process():
    assert launched(None, {}) == Launched("simulator")
    assert launched(None, {"RANK": "2", "WORLD_SIZE": "4"}) == Launched("torch", 2, 4)
    ranks = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}
    assert launched(None, ranks) == Launched("mpi", 1, 3)
    assert launched("mpi", {"PMI_RANK": "1", "PMI_SIZE": "3"}) == Launched("mpi", 1, 3)
    assert launched("simulator", ranks) == Launched("simulator")
    assert isinstance(Launched("simulator").connect([[1.0]]), dsgt.networks.Dense)
