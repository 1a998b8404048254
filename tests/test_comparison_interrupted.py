"""A comparison in a process of its own: interrupted, killed, out of space; then it ends as if nothing had happened."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dsgt.checkpoint.journal import Journal
from dsgt.cli import app
from support.launch import HANGING, TESTS, environment

ARGUMENTS = ["compare", "dsgt", "sgd", "--nodes", "4", "--graph", "ring", "--epochs", "2", "--evaluations", "4"]
ARGUMENTS += ["--lr", "0.05", "--lr", "0.1", "--seeds", "3", "--tuning-seeds", "1", "--grow", "0"]


def here(out: Path) -> bytes:
    """To the end, in this process; the rows that come out."""
    done = CliRunner().invoke(app, [*ARGUMENTS, "--workers", "1", "--out", str(out)])
    assert done.exit_code == 0, done.output
    return (out / "rows.jsonl").read_bytes()


def command(
    out: Path, workers: int, *program: str, limit: Callable[[], None] = lambda: None
) -> subprocess.CompletedProcess[str]:
    """In a process of its own, to its end."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's job in the background is started deaf to it
        limit()

    return subprocess.run(
        [sys.executable, *program, *ARGUMENTS, "--workers", str(workers), "--out", str(out)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=prepare,
        timeout=HANGING,
        check=False,
    )


def finished(out: Path) -> int:
    journal = out / "finished.jsonl"
    return journal.read_text().count("\n") - 1 if journal.is_file() else 0


def stop_after(runs: int, out: Path, workers: int, sent: signal.Signals) -> tuple[int, str]:
    """Its exit code and what it said."""
    done = command(out, workers, str(TESTS / "workers" / "stopped_command.py"), str(runs), str(int(sent)))
    return done.returncode, " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return here(tmp_path_factory.mktemp("undisturbed"))


def test_interrupted_and_killed_it_ends_with_the_same_bytes(undisturbed: bytes, tmp_path: Path):
    code, output = stop_after(1, tmp_path, 2, signal.SIGINT)
    assert code == 130, output
    assert "give the command again to go on" in output
    assert "Traceback" not in output
    before = finished(tmp_path)
    assert before >= 1
    code, output = stop_after(2, tmp_path, 1, signal.SIGKILL)
    assert code == -signal.SIGKILL, output
    assert finished(tmp_path) == before + 2
    assert here(tmp_path) == undisturbed


def test_without_space_it_stops_in_plain_words_and_loses_nothing_finished(undisturbed: bytes, tmp_path: Path):
    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    done = command(tmp_path, 1, "-c", "from dsgt.cli import app; app()", limit=small_disk)
    assert done.returncode == 2, done.stdout
    assert "File too large" in done.stdout
    assert "Traceback" not in done.stdout
    assert 1 <= finished(tmp_path) < 10
    with pytest.warns(UserWarning, match="is not whole"):  # the line that did not fit
        assert here(tmp_path) == undisturbed


def test_a_folder_that_cannot_be_made_is_refused_before_work(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    done = CliRunner().invoke(app, [*ARGUMENTS, "--out", str(tmp_path / "file" / "out")])
    assert done.exit_code == 2
    assert "Not a directory" in done.output


def test_a_worker_that_is_killed_ends_it_in_plain_words_and_loses_nothing_finished(
    undisturbed: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    append = Journal.append

    def killing(self: Journal, piece: Mapping[str, Any]) -> None:
        append(self, piece)
        for worker in multiprocessing.active_children():
            worker.kill()

    monkeypatch.setattr(Journal, "append", killing)
    done = CliRunner().invoke(app, [*ARGUMENTS, "--workers", "2", "--out", str(tmp_path)])
    monkeypatch.undo()
    said = " ".join(done.output.split())
    assert done.exit_code == 2, said
    assert "error: a worker process was killed from outside, probably because the memory ran out" in said
    assert "give the command again" in said
    assert "Traceback" not in said
    assert 1 <= finished(tmp_path) < 10
    assert here(tmp_path) == undisturbed
