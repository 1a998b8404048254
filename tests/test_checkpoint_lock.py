"""Two jobs do not share a folder, the nodes of one job do, and a job that is gone is in nobody's way."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch import nn

import dsgt
from dsgt import checkpoint
from dsgt.checkpoint import journal
from dsgt.checkpoint import lock as lock_file
from dsgt.checkpoint import part as part_file
from dsgt.checkpoint.lock import InUseError, Lock
from dsgt.checkpoint.part import Part, write
from dsgt.networks import in_threads
from dsgt.topologies import metropolis
from support.interrupted import problem
from support.launch import environment

W = metropolis(nx.cycle_graph(4))
REAL = """
import sys
from dsgt.checkpoint.lock import Lock
lock = Lock(sys.argv[1])
lock.hold()
print("held", flush=True)
sys.stdin.read()
"""
QUICK = """
import fcntl, json, os, socket, sys
file = open(sys.argv[1] + "/lock", "w")
fcntl.flock(file, fcntl.LOCK_EX)
json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": "today"}, file)
file.flush()
print("held", flush=True)
sys.stdin.read()
"""
"""The same without importing torch."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_file, "PATIENCE", 0.0)


@contextmanager
def another_job(folder: Path, program: str = QUICK) -> Iterator[subprocess.Popen[str]]:
    """That holds the folder, in a process of its own."""
    command = [sys.executable, "-c", program, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def run(folder: Path, **options: Any) -> dsgt.Result[Any]:
    return dsgt.run(dsgt.DSGT(), problem(4), W, lr=0.01, checkpoint_dir=folder, **{"rounds": 5} | options)


def trained(net: Any, folder: Path, steps: int) -> int:
    model = nn.Linear(2, 1).double()
    opt = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), net, lr=0.1)
    for _ in checkpoint.Training(folder, model, opt).steps(steps, save_every=1):
        opt.zero_grad()
        model(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
        opt.step()
    return opt.round


def test_a_second_job_is_refused_and_told_who_is_there(tmp_path: Path):
    run(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with another_job(tmp_path, REAL) as other:
        words = f"is in use by process {other.pid} on {socket.gethostname()} since .*: two jobs in one folder"
        with pytest.raises(InUseError, match=words):
            run(tmp_path, rounds=9, resume=True)
        with pytest.raises(InUseError, match=words):
            in_threads([[0.5, 0.5], [0.5, 0.5]], lambda net: trained(net, tmp_path, 3))
        with pytest.raises(InUseError, match=words):
            journal.Journal(tmp_path / "finished.jsonl", {}, resume=True)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "lock") == before


def test_all_nodes_of_a_job_are_refused_alike(tmp_path: Path):
    def node(net: Any) -> str:
        with pytest.raises(InUseError) as error:
            trained(net, tmp_path, 3)
        return str(error.value)

    with another_job(tmp_path) as other:
        first, *others = in_threads(W, node, timeout=30)
    assert f"process {other.pid}" in first
    assert others == [first] * 3


def test_the_lock_of_a_process_that_was_killed_is_taken_over(tmp_path: Path):
    with another_job(tmp_path):
        pass
    assert json.loads((tmp_path / "lock").read_text())["host"] == socket.gethostname()
    run(tmp_path)
    assert not (tmp_path / "lock").exists()


def test_who_is_given_the_command_again_waits_a_moment_for_the_one_before(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(lock_file, "PATIENCE", 1000.0)
    with another_job(tmp_path) as other:
        sleep = lock_file.time.sleep
        monkeypatch.setattr(lock_file.time, "sleep", lambda seconds: (other.kill(), sleep(seconds)))
        run(tmp_path)


def test_a_job_that_ends_leaves_no_lock(tmp_path: Path):
    run(tmp_path / "run")
    in_threads(W, lambda net: trained(net, tmp_path / "training", 3))
    with pytest.raises(checkpoint.CheckpointError, match="holds checkpoints of an earlier run"):
        run(tmp_path / "run")
    assert not list(tmp_path.rglob("lock"))
    with another_job(tmp_path / "run"):
        pass


def refused(folder: Path) -> bool:
    """Whether another opener of the file cannot have it; it is the opener that counts, not the process."""
    with (folder / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_one_process_may_ask_again_and_has_it_until_the_last_lets_go(tmp_path: Path):
    first, second = Lock(tmp_path), Lock(tmp_path)
    first.hold()
    first.hold()
    second.hold()
    (tmp_path / "lock").read_text()  # a backup
    first.close()
    first.close()
    assert refused(tmp_path)
    del second
    assert not (tmp_path / "lock").exists()


def wait_for(release: Any) -> None:
    release.recv()


def test_a_forked_worker_neither_ends_the_lock_nor_keeps_it(tmp_path: Path):
    """Data loaders fork; when their parent is killed they live on for seconds."""
    lock, fork = Lock(tmp_path), multiprocessing.get_context("fork")
    lock.hold()
    child = fork.Process(target=lock.close)
    child.start()
    child.join()
    assert refused(tmp_path)
    here, there = fork.Pipe()
    child = fork.Process(target=wait_for, args=(there,))
    child.start()
    lock.close()
    lock_of_the_next = Lock(tmp_path)
    lock_of_the_next.hold()
    here.send(None)
    child.join()
    lock_of_the_next.close()


def test_a_lock_that_another_machine_left_is_taken_with_a_warning(tmp_path: Path):
    (tmp_path / "lock").write_text(json.dumps({"pid": 12, "host": "elsewhere", "since": "yesterday"}))
    with pytest.warns(checkpoint.CheckpointWarning, match="last used by process 12 on elsewhere since yesterday"):
        run(tmp_path)


@pytest.mark.parametrize("text", ["", "no JSON", "[1]"])
def test_an_unreadable_lock_that_nobody_holds_is_taken(tmp_path: Path, text: str):
    (tmp_path / "lock").write_text(text)
    run(tmp_path)


def test_a_folder_that_was_made_anew_is_locked_anew(tmp_path: Path):
    first, second = Lock(tmp_path), Lock(tmp_path)
    first.hold()
    (tmp_path / "lock").unlink()
    second.hold()
    assert (tmp_path / "lock").exists()
    second.close()
    assert not (tmp_path / "lock").exists()


def test_links_are_not_followed_by_what_is_written(tmp_path: Path):
    """Neither a temporary file nor a lock writes into somebody else's."""
    outside, folder = tmp_path / "outside", tmp_path / "in"
    folder.mkdir()
    outside.write_text("mine")
    for name in ("part.tmp", "finished.jsonl.tmp", "finished.jsonl", "lock"):
        (folder / name).symlink_to(outside)
    write(folder / "part", Part(1, None, 1, {}, {}, {"x": torch.zeros(2)}))
    journal.Journal(folder / "finished.jsonl", {}, resume=False).append({"key": 1})
    run(folder)
    assert outside.read_text() == "mine"
    assert checkpoint.latest(folder) == 5


def test_a_link_at_a_guessed_name_is_not_followed_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(part_file, "token_hex", lambda count: "guess")
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "part.guess.tmp").symlink_to(tmp_path / "outside")
    with pytest.raises(FileExistsError):
        write(tmp_path / "part", Part(1, None, 1, {}, {}, {"x": torch.zeros(2)}))
    assert (tmp_path / "outside").read_text() == "mine"


def test_a_full_disk_does_not_keep_a_job_from_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lock_file.os, "pwrite", full)
    lock = Lock(tmp_path)
    lock.hold()
    assert refused(tmp_path)
    lock.close()
