"""A comparison in a process of its own: interrupted, killed, out of space; then it ends as if nothing had happened."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [
    sys.executable, "-c", "from dsgt.cli import app; app()", "compare", "dsgt", "sgd", "--nodes", "4",
    "--graph", "ring", "--epochs", "3", "--lr", "0.05", "--lr", "0.1", "--seeds", "3", "--evaluations", "4",
]  # fmt: skip


def start(out: Path, *options: str, preexec_fn: object = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--out", str(out), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=preexec_fn,
    )


def finished(out: Path) -> int:
    journal = out / "finished.jsonl"
    return journal.read_text().count("\n") - 1 if journal.is_file() else 0


def wait_for(runs: int, out: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while finished(out) < runs:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the comparison makes no progress"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("undisturbed")
    process = start(out, "--workers", "1")
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    return (out / "rows.jsonl").read_bytes()


def test_interrupted_and_killed_it_ends_with_the_same_bytes(undisturbed: bytes, tmp_path: Path):
    for runs, sent in ((2, signal.SIGINT), (5, signal.SIGKILL)):
        process = start(tmp_path)
        wait_for(runs, tmp_path, process)
        os.killpg(process.pid, sent)  # as a terminal does: the workers too
        output = process.communicate(timeout=60)[0]
        if sent == signal.SIGINT:
            assert process.returncode == 130, output
            assert "give the command again to go on" in " ".join(output.split())
            assert "Traceback" not in output
    before = finished(tmp_path)
    assert before >= 5
    process = start(tmp_path)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert (tmp_path / "rows.jsonl").read_bytes() == undisturbed


def test_without_space_it_stops_in_plain_words_and_loses_nothing_finished(undisturbed: bytes, tmp_path: Path):
    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    process = start(tmp_path, preexec_fn=small_disk)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 2, output
    assert "File too large" in output
    assert "Traceback" not in output
    kept = finished(tmp_path)
    assert kept >= 1
    process = start(tmp_path)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert (tmp_path / "rows.jsonl").read_bytes() == undisturbed


def test_a_folder_that_cannot_be_made_is_refused_before_work(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    process = start(tmp_path / "file" / "out")
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 2
    assert "Not a directory" in output
