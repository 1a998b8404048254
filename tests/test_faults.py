"""What happens to long jobs happens here, a few times; ``make faults`` does it many times."""

from __future__ import annotations

import errno
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import dsgt
import dsgt.theory.diverged
from dsgt import checkpoint
from dsgt.checkpoint import part as part_file
from dsgt.core import tensors
from dsgt.divergence import Attempt
from dsgt.run import run as loop
from faults import hosts, silences
from faults import jobs as fault_jobs
from faults import suite as faults
from support.cases import CASES, graph
from support.interrupted import LR, MEASURED, ROUNDS, equal, go, problem
from support.launch import HANGING, free_port
from workers.fault_worker import TIMEOUT

N = 5
DSGT = CASES["dsgt"]
W = DSGT.weights(graph(N))


@pytest.mark.parametrize(("fault", "n"), [("killed", 2), ("interrupted", 4)])
def test_a_disturbed_job_ends_in_the_undisturbed_result(tmp_path: Path, fault: str, n: int):
    found = faults.FAULTS[fault][1](n, tmp_path, random.Random(0))
    assert found.survived, found.says
    assert found.equal, found.says


def test_nodes_whose_link_is_cut_name_each_other_and_go_on_exactly_when_it_is_mended(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(silences, "SHORT", TIMEOUT)  # nobody may be taken for silent who is only slow
    if why := hosts.forbidden():
        pytest.skip(why)
    found = faults.cut_alone(2, tmp_path, random.Random(0))
    assert found.survived, found.says
    assert found.equal, found.says
    assert not [name for name in os.listdir("/run/netns") if name.startswith(f"dsgt-{os.getpid()}-")]


def signalled_until_it_ends(job: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """Its exit code. Signals that come too soon after each other are one to a process that has no time to look."""
    deadline = time.monotonic() + HANGING
    while job.poll() is None and time.monotonic() < deadline:
        job.send_signal(number)
        time.sleep(0.2)
    return fault_jobs.finish(job)


def test_a_second_interrupt_ends_the_run_at_once(tmp_path: Path):
    job = fault_jobs.start("all", 4, tmp_path, pause=1000)  # it would save only after this round
    fault_jobs.wait_for_round(tmp_path, 0, job)
    assert signalled_until_it_ends(job, signal.SIGINT) == -signal.SIGINT


def one_node_alone(folder: Path, pause: float) -> subprocess.Popen[bytes]:
    """A training loop of one's own, on a network of one."""
    about = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, *fault_jobs.worker("training", folder, pause, 20.0)]
    return fault_jobs.process(command, folder, **about)


def test_a_training_loop_saves_when_it_is_asked_to_stop_and_goes_on_where_it_was(tmp_path: Path):
    job = one_node_alone(tmp_path, 0.01)
    fault_jobs.wait_for_round(tmp_path, 11, job)
    job.send_signal(signal.SIGINT)
    fault_jobs.disturbed(tmp_path)
    assert fault_jobs.finish(job) == 128 + signal.SIGINT
    says = (tmp_path / "output").read_text()
    assert re.search(r"stopped by SIGINT after step \d+ of 60; checkpoints are in .* give the same command again", says)
    assert fault_jobs.finish(one_node_alone(tmp_path, 0)) == 0
    assert fault_jobs.lost_rounds(tmp_path, 0) == 0
    assert (tmp_path / "notes" / "result-0.pt").exists()


def test_a_second_signal_ends_a_training_loop_at_once(tmp_path: Path):
    job = one_node_alone(tmp_path, 1000)
    fault_jobs.wait_for_round(tmp_path, 0, job)
    job.send_signal(signal.SIGINT)
    assert signalled_until_it_ends(job, signal.SIGTERM) == -signal.SIGTERM


def failing(monkeypatch, times: range) -> None:
    """Make the saves with these numbers fail as on a full disk."""
    count = iter(range(1000))
    real = part_file.atomic

    def atomic(path: Path):
        if next(count) in times:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path)

    monkeypatch.setattr(part_file, "atomic", atomic)


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


def stopped_at(lr: float, network: object = W, **options: object) -> str:
    with pytest.raises(dsgt.DivergedError) as stopped:
        dsgt.run(dsgt.DSGT(), problem(N), network, rounds=3000, lr=lr, metrics=MEASURED, every=1, **options)
    return str(stopped.value)


def test_divergence_says_which_lr_is_stable_and_that_lr_is():
    says = stopped_at(3.0)
    limit = float(re.search(r"is beyond ([\d.]+), about the limit of DSGT on this network", says)[1])
    tried = float(re.search(r"try lr <= ([\d.]+)", says)[1])
    assert tried == pytest.approx(0.8 * limit, rel=0.05)  # both are rounded to two digits
    assert dsgt.theory.advise(problem(N), W, 100).limit_practice == pytest.approx(tried, rel=0.3)
    found = dsgt.run(dsgt.DSGT(), problem(N), W, rounds=3000, lr=tried, metrics=MEASURED)
    assert max(found.column("loss")[1:]) < found.rows[0]["loss"]


def test_a_loss_beyond_its_limit_stops_a_run_with_its_round_and_the_worst_node():
    says = stopped_at(3.0, loss_limit=1e4)
    assert re.match(
        r"the loss after round \d is [\d.e+]+, above loss_limit = 10000, and worst at node \d \(lr = 3\)", says
    )


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_a_run_though_gradients_are(loss: float):
    class Blind(type(problem(N))):
        def loss(self, x: torch.Tensor) -> torch.Tensor:
            return super().loss(x) * loss

    blind = problem(N)
    blind.__class__ = Blind
    with pytest.raises(dsgt.DivergedError, match=f"the loss after round 0 is {loss}"):
        dsgt.run(dsgt.DSGT(), blind, W, rounds=3, lr=0.01)


def test_where_no_limit_is_known_the_general_advice_is_given():
    assert "lr is too large: lower it" in stopped_at(3.0, dsgt.networks.Cycle([W, W]))


def test_the_loop_itself_computes_no_hint_and_who_shows_its_error_may_ask_for_one():
    with pytest.raises(dsgt.DivergedError) as stopped:
        loop(dsgt.DSGT(), problem(N), W, rounds=3000, lr=3.0, metrics=MEASURED, loss_limit=1e4)
    assert "lr is too large: lower it" in str(stopped.value)
    told = dsgt.theory.explain(stopped.value)
    assert "about the limit of DSGT on this network" in str(told)
    assert (told.k, told.node, told.lr, told.everywhere) == (
        stopped.value.k, stopped.value.node, 3.0, True,
    )  # fmt: skip
    bare = dsgt.DivergedError(0, 3, 1.0)
    assert dsgt.theory.explain(bare) is bare  # nothing is known of its run


def test_a_small_lr_that_diverges_is_not_blamed():
    attempt = Attempt(dsgt.DSGT(), problem(N), dsgt.networks.Dense(W), problem(N).start(0), 0)
    grown = dsgt.theory.diverged.suggestion(attempt, 0.01)
    assert "lr = 0.01 is within" in grown


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan])
def test_a_loss_limit_that_is_none_is_refused(limit: float):
    with pytest.raises(ValueError, match="give the loss above which the run has diverged"):
        dsgt.run(dsgt.DSGT(), problem(N), W, rounds=3, lr=0.01, loss_limit=limit)


def test_a_diverged_state_is_not_saved(tmp_path: Path):
    with pytest.raises(dsgt.DivergedError, match="the last good checkpoint is of round"):
        dsgt.run(
            dsgt.DSGT(), problem(N), W, rounds=3000, lr=3.0, metrics={}, checkpoint_dir=tmp_path, checkpoint_every=1
        )
    found = checkpoint.part.read(max(tmp_path.iterdir()))
    assert all(torch.isfinite(t).all() for t in found.tensors.values())
