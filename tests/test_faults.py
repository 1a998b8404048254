"""What happens to long jobs happens here, a few times; ``make faults`` does it many times."""

from __future__ import annotations

import errno
import random
import signal
from pathlib import Path

import pytest
import torch

import dsgt
import faults
from cases import CASES, graph
from dsgt import checkpoint
from dsgt.checkpoint import part as part_file
from dsgt.core import tensors
from interrupted import LR, MEASURED, ROUNDS, equal, go, problem

N = 5
DSGT = CASES["dsgt"]
W = DSGT.weights(graph(N))


@pytest.mark.parametrize(("fault", "n"), [("killed", 2), ("interrupted", 4)])
def test_a_disturbed_job_ends_in_the_undisturbed_result(tmp_path: Path, fault: str, n: int):
    found = faults.FAULTS[fault][1](n, tmp_path, random.Random(0))
    assert found.survived, found.says
    assert found.equal, found.says


def test_a_second_interrupt_ends_the_run_at_once(tmp_path: Path):
    job = faults.start("all", 4, tmp_path, pause=1000)  # it would save only after this round
    faults.wait_for_round(tmp_path, 0, job)
    for _ in range(2):
        job.send_signal(signal.SIGINT)
        faults.time.sleep(0.5)
    assert faults.finish(job) == -signal.SIGINT


def failing(monkeypatch, times: range) -> None:
    """Make the saves with these numbers fail as on a full disk."""
    count = iter(range(1000))
    real = part_file._atomic

    def atomic(path: Path):
        if next(count) in times:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path)

    monkeypatch.setattr(part_file, "_atomic", atomic)


def test_a_run_goes_on_over_a_full_disk_and_keeps_what_it_had(tmp_path: Path, monkeypatch):
    failing(monkeypatch, range(1, 1000))
    with pytest.warns(
        checkpoint.CheckpointWarning, match="No space left on device; the run goes on, and the last good"
    ):
        found = go(DSGT, W, N, checkpoint_dir=tmp_path, checkpoint_every=5)
    assert equal(found, go(DSGT, W, N))
    assert checkpoint.latest(tmp_path) == 5
    monkeypatch.undo()
    assert equal(go(DSGT, W, N, checkpoint_dir=tmp_path, resume=True), found)


def test_a_disk_that_has_room_again_is_used_again(tmp_path: Path, monkeypatch):
    failing(monkeypatch, range(0, 2))
    with pytest.warns(checkpoint.CheckpointWarning, match="no checkpoint has been saved"):
        go(DSGT, W, N, checkpoint_dir=tmp_path, checkpoint_every=5)
    assert checkpoint.latest(tmp_path) == ROUNDS


def test_a_strict_run_stops_at_a_full_disk(tmp_path: Path, monkeypatch):
    failing(monkeypatch, range(1, 1000))
    with pytest.raises(checkpoint.SaveError, match="round 10 could not be written"):
        go(DSGT, W, N, checkpoint_dir=checkpoint.Folder(tmp_path, strict=True), checkpoint_every=5)
    assert checkpoint.latest(tmp_path) == 5


def test_divergence_names_the_last_good_checkpoint_and_a_lower_rate_goes_on_from_it(tmp_path: Path):
    def wild(k: int) -> float:
        return LR if k < 12 else 1e300

    options = {"rounds": 40, "every": 4, "metrics": MEASURED, "checkpoint_dir": tmp_path, "checkpoint_every": 5}
    with pytest.raises(
        dsgt.DivergedError, match=r"in round \d+ .*the last good checkpoint is of round 10, in .*resume"
    ):
        dsgt.run(dsgt.DSGT(), problem(N), W, lr=wild, **options)
    found = dsgt.run(dsgt.DSGT(), problem(N), W, lr=LR, resume=True, **options)
    assert all(t.isfinite().all() for t in tensors(found.state).values())


def test_a_diverged_state_is_not_saved(tmp_path: Path):
    with pytest.raises(dsgt.DivergedError, match="the last good checkpoint is of round"):
        dsgt.run(
            dsgt.DSGT(), problem(N), W, rounds=3000, lr=3.0, metrics={}, checkpoint_dir=tmp_path, checkpoint_every=1
        )
    found = checkpoint.part.read(max(tmp_path.iterdir()))
    assert all(torch.isfinite(t).all() for t in found.tensors.values())
