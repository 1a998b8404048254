"""The fault suite: real processes are killed, stopped, interrupted and starved, and must end in the undisturbed result.

usage: python tests/faults.py [RUNS] [NAME ...]     (make faults; 20 runs of the first fault, fewer of the others)
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from fault_worker import ROUNDS
from launch import HERE, LAUNCHERS, environment

WORKER = str(HERE / "fault_worker.py")
PATIENCE = 180.0
TORCHRUN = ("--max-restarts=5", "--monitor-interval=0.1", "--shutdown-timeout=5")


@dataclass(frozen=True)
class Outcome:
    survived: bool
    lost: int
    """Rounds that were computed again."""
    equal: bool
    """Whether models, trackers and metric rows are those of the undisturbed run, bit for bit."""
    says: str
    """What the processes printed, where something went wrong."""


def command(kind: str, n: int, folder: Path, pause: float) -> list[str]:
    if kind == "all":
        return [sys.executable, WORKER, kind, str(folder), str(pause)]
    return LAUNCHERS[kind](n, *TORCHRUN * (kind == "torch"), WORKER, kind, str(folder), str(pause))


def start(kind: str, n: int, folder: Path, pause: float = 0.03) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            command(kind, n, folder, pause), env=environment(), stdout=output, stderr=output, start_new_session=True
        )


def finish(job: subprocess.Popen[bytes]) -> int:
    try:
        return job.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return job.wait()


def rounds_seen(folder: Path, node: int) -> list[tuple[bool, int]]:
    """Every round that a node looked at its schedule for, and whether a process began with it."""
    log = folder / "notes" / f"rounds-{node}"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(line.startswith("begin "), int(line.removeprefix("begin "))) for line in lines if line]


def wait_for_round(folder: Path, k: int, job: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
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


def disturb(kind: str, n: int, folder: Path, rng: random.Random, number: int, whom: str) -> int:
    """Send a signal to a random worker, or to the launcher, at a random moment; the exit code."""
    job = start(kind, n, folder)
    wait_for_round(folder, rng.randrange(1, ROUNDS - 5), job)
    time.sleep(rng.random() * 0.1)
    worker = int((folder / "notes" / f"pid-{rng.randrange(n if kind != 'all' else 1)}").read_text())
    os.kill(worker if whom == "worker" else job.pid, number)
    return finish(job)


def killed(n: int, folder: Path, rng: random.Random) -> Outcome:
    """kill -9 of a worker; torchrun --max-restarts starts all of them again."""
    return outcome("torch", n, folder, disturb("torch", n, folder, rng, signal.SIGKILL, "worker"))


def killed_mpi(n: int, folder: Path, rng: random.Random) -> Outcome:
    """kill -9 of a rank ends the job; the same command is given again."""
    assert disturb("mpi", n, folder, rng, signal.SIGKILL, "worker") != 0
    return outcome("mpi", n, folder, finish(start("mpi", n, folder)))


def terminated(n: int, folder: Path, rng: random.Random) -> Outcome:
    """SIGTERM of the launcher, as a scheduler sends it; the same command is given again."""
    assert disturb("torch", n, folder, rng, signal.SIGTERM, "launcher") != 0
    return outcome("torch", n, folder, finish(start("torch", n, folder)))


def hanging(n: int, folder: Path, rng: random.Random) -> Outcome:
    """SIGSTOP of a worker: the others must name it within the timeout, and torchrun starts all again."""
    code = disturb("torch", n, folder, rng, signal.SIGSTOP, "worker")
    named = "heard nothing from its neighbour, node" in (folder / "output").read_text()
    found = outcome("torch", n, folder, code)
    return found if named else Outcome(False, found.lost, found.equal, (folder / "output").read_text())


def interrupted(n: int, folder: Path, rng: random.Random) -> Outcome:
    """SIGINT of a simulation, which must save and say how to go on; the same command is given again."""
    assert disturb("all", n, folder, rng, signal.SIGINT, "worker") == 130
    assert "go on from it with resume=True" in (folder / "output").read_text()
    return outcome("all", n, folder, finish(start("all", n, folder)))


def damaged(n: int, folder: Path, rng: random.Random) -> Outcome:
    """SIGTERM of the launcher, then the newest part of node 1 loses its end."""
    disturb("torch", n, folder, rng, signal.SIGTERM, "launcher")
    parts = sorted((folder / "checkpoints").glob("*-node-1-of-*"))
    if parts:
        parts[-1].write_bytes(parts[-1].read_bytes()[:-7])
    return outcome("torch", n, folder, finish(start("torch", n, folder)))


def full_disk(n: int, folder: Path, rng: random.Random) -> Outcome:
    """Checkpoints go to a file system that is full from the second one on; the run must go on to its end."""
    place = folder / "checkpoints"
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(place)], check=True, capture_output=True)
    try:
        code = finish(start("all", n, folder))
        warned = "No space left on device" in (folder / "output").read_text()
        found = outcome("all", n, folder, code)
    finally:
        subprocess.run(["umount", str(place)], check=False)
    return found if warned else Outcome(False, found.lost, found.equal, "the disk was never full")


FAULTS: dict[str, tuple[str, Callable[[int, Path, random.Random], Outcome], list[int]]] = {
    "killed": ("kill -9 of a worker, torchrun --max-restarts", killed, [2, 4] * 10),
    "killed-mpi": ("kill -9 of a rank, mpiexec given again", killed_mpi, [2, 4]),
    "terminated": ("SIGTERM of torchrun, given again", terminated, [2, 4] * 2),
    "hanging": (
        "SIGSTOP of a worker, torchrun --max-restarts",
        hanging,
        [4, 4],
    ),  # two nodes average by all-reduce, where nobody can be named
    "interrupted": ("SIGINT of a simulation, given again", interrupted, [4] * 3),
    "damaged": ("SIGTERM, then a part is truncated, given again", damaged, [2, 4]),
    "full-disk": ("a full disk while saving", full_disk, [4]),
}


def main(most: int, names: list[str]) -> int:
    print("| fault | nodes | runs | survived | most rounds lost | result equal |\n|---|---|---:|---:|---:|---:|")
    bad = 0
    for name in names or FAULTS:
        title, fault, sizes = FAULTS[name]
        found = []
        for number, n in enumerate(sizes[:most]):
            with tempfile.TemporaryDirectory() as folder:
                found.append(fault(n, Path(folder), random.Random(f"{name} {number}")))
            o = found[-1]
            print(f"{name} {number}: survived {o.survived}, lost {o.lost}, equal {o.equal}\n{o.says}", file=sys.stderr)
        survived, equal = (sum(getattr(o, key) for o in found) for key in ("survived", "equal"))
        nodes = ", ".join(map(str, sorted(set(sizes[:most]))))
        most_lost = max(o.lost for o in found)
        print(f"| {title} | {nodes} | {len(found)} | {survived} | {most_lost} | {equal} |", flush=True)
        bad += 2 * len(found) - survived - equal
    return bad


if __name__ == "__main__":
    sys.exit(min(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:]), 1))
