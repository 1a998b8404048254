"""``dsgt train`` as a whole, killed: started again it must write the rows of the undisturbed one, to the last digit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from functools import cache, partial
from pathlib import Path

from dsgt import checkpoint
from faults.jobs import TORCHRUN, Outcome, finish, process
from support.launch import HANGING, LAUNCHERS, TESTS

ROUNDS, EVERY = 390, 20
"""At least so many; batches are rounded."""
FLAGS = ("train", "dsgt", "--graph", "path", "--weights", "lazy-metropolis", "--batch", "144", "--epochs", "40")


def killed_train(kind: str, n: int, folder: Path, rng: random.Random) -> Outcome:
    """kill -9 of a process; torchrun starts all again, and to mpiexec the same command is given again."""
    job = _start(kind, n, folder)
    _wait_for(folder, rng.randrange(EVERY, ROUNDS - 2 * EVERY), job)
    time.sleep(rng.random() * 0.1)
    os.kill(int((folder / "notes" / f"pid-{rng.randrange(n)}").read_text()), signal.SIGKILL)
    code = finish(job)
    if kind == "mpi":
        assert code != 0
        code = finish(_start(kind, n, folder))
    rows = folder / "out" / "rows.jsonl"
    equal = rows.exists() and rows.read_text() == _undisturbed(kind, n)
    return Outcome(code == 0, None, equal, "" if code == 0 and equal else (folder / "output").read_text())


def _start(kind: str, n: int, folder: Path) -> subprocess.Popen[bytes]:
    (folder / "notes").mkdir(parents=True, exist_ok=True)
    saving = ("--checkpoint-dir", str(folder / "checkpoints"), "--checkpoint-every", str(EVERY), "--resume")
    words = (str(TESTS / "workers" / "train_worker.py"), *FLAGS, *saving, "--out", str(folder / "out"))
    return process(LAUNCHERS[kind](n, *TORCHRUN * (kind == "torch"), *words), folder, NOTES=str(folder / "notes"))


def _wait_for(folder: Path, k: int, job: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + HANGING
    while time.monotonic() < deadline and job.poll() is None:
        names = [path.name for path in (folder / "checkpoints").glob("*.safetensors")]
        if names and int(max(names).split("-")[1]) >= k:
            return
        time.sleep(0.005)


@cache
def _undisturbed(kind: str, n: int) -> str:
    with tempfile.TemporaryDirectory() as path:
        assert finish(_start(kind, n, Path(path))) == 0, (Path(path) / "output").read_text()
        last = checkpoint.latest(Path(path) / "checkpoints")
        assert (last or 0) > ROUNDS - EVERY, "it is shorter than its disturbances suppose"
        return (Path(path) / "out" / "rows.jsonl").read_text()


killed_train_torch = partial(killed_train, "torch")
killed_train_mpi = partial(killed_train, "mpi")
