"""Jobs of the fault suite: started, disturbed, finished, and compared with an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from support.launch import HANGING, LAUNCHERS, TESTS, environment
from workers.fault_worker import ROUNDS, TIMEOUT

WORKER = str(TESTS / "workers" / "fault_worker.py")
TORCHRUN = ("--max-restarts=5", "--monitor-interval=0.1", "--shutdown-timeout=5")


@dataclass(frozen=True)
class Outcome:
    survived: bool
    lost: int | None
    """Rounds that were computed again; None where nobody counted."""
    equal: bool
    """Whether models, trackers and metric rows are those of the undisturbed run, bit for bit."""
    says: str
    """What the processes printed, where something went wrong."""
    waited: float = 0.0
    """Seconds from the fault to the last error that names a neighbour."""


def worker(kind: str, folder: Path, pause: float, timeout: float) -> tuple[str, ...]:
    return WORKER, kind, str(folder), str(pause), str(timeout)


def command(kind: str, n: int, folder: Path, pause: float, timeout: float) -> list[str]:
    if kind == "all":
        return [sys.executable, *worker(kind, folder, pause, timeout)]
    launcher = "mpi" if kind == "mpi" else "torch"
    return LAUNCHERS[launcher](n, *TORCHRUN * (launcher == "torch"), *worker(kind, folder, pause, timeout))


def start(kind: str, n: int, folder: Path, pause: float = 0.015, timeout: float = TIMEOUT) -> subprocess.Popen[bytes]:
    return process(command(kind, n, folder, pause, timeout), folder)


def process(command: list[str], folder: Path, **environ: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            command, env=environment() | environ, stdout=output, stderr=output, start_new_session=True
        )


def sweep(folder: Path) -> None:
    """End what is left of a job: stopped workers do not end by themselves, and torchrun gives each a session."""
    for note in (folder / "notes").glob("pid-*"):
        with suppress(OSError):
            about = Path(f"/proc/{int(note.read_text())}/cmdline").read_bytes()
            if str(folder).encode() in about:  # and not another process that got the number
                os.kill(int(note.read_text()), signal.SIGKILL)


def finish(job: subprocess.Popen[bytes]) -> int:
    try:
        return job.wait(HANGING)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return job.wait()


def rounds_seen(folder: Path, node: int) -> list[tuple[bool, int]]:
    """Every round that a node looked at its schedule for, and whether a process began with it."""
    log = folder / "notes" / f"rounds-{node}"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(line.startswith("begin "), int(line.removeprefix("begin "))) for line in lines if line]


def wait_for_round(folder: Path, k: int, job: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + HANGING
    while time.monotonic() < deadline and job.poll() is None:
        seen = rounds_seen(folder, 0)
        if seen and seen[-1][1] >= k:
            return
        time.sleep(0.01)


def lost_rounds(folder: Path, node: int) -> int:
    seen = rounds_seen(folder, node)
    return sum(max(0, seen[p - 1][1] + 1 - k) for p, (begins, k) in enumerate(seen) if begins and p)


@cache
def undisturbed(kind: str, n: int) -> list[dict[str, torch.Tensor]]:
    with tempfile.TemporaryDirectory() as folder:
        code = finish(start(kind, n, Path(folder), pause=0))
        assert code == 0, (Path(folder) / "output").read_text()
        return results(Path(folder), n)


def results(folder: Path, n: int) -> list[dict[str, torch.Tensor]]:
    return [torch.load(path) for i in range(n) if (path := folder / "notes" / f"result-{i}.pt").exists()]


def outcome(kind: str, n: int, folder: Path, code: int) -> Outcome:
    nodes = 1 if kind == "all" else n
    found, expected = results(folder, nodes), undisturbed(kind, n)
    equal = len(found) == nodes and all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
        for a, b in zip(found, expected, strict=True)
    )
    lost = max(lost_rounds(folder, i) for i in range(nodes))
    return Outcome(code == 0, lost, equal, "" if code == 0 and equal else (folder / "output").read_text())


def moment(folder: Path, rng: random.Random, job: subprocess.Popen[bytes]) -> None:
    wait_for_round(folder, rng.randrange(1, ROUNDS - 5), job)
    time.sleep(rng.random() * 0.1)


def disturbed(folder: Path) -> None:
    """Tell the job that it has been disturbed, and may end."""
    (folder / "notes" / "disturbed").touch()


def disturb(kind: str, n: int, folder: Path, rng: random.Random, number: int, whom: str) -> int:
    """Send a signal to a random worker, or to the launcher, at a random moment; the exit code."""
    job = start(kind, n, folder)
    moment(folder, rng, job)
    pid = int((folder / "notes" / f"pid-{rng.randrange(n if kind != 'all' else 1)}").read_text())
    os.kill(pid if whom == "worker" else job.pid, number)
    disturbed(folder)
    return finish(job)
