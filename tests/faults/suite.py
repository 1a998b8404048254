"""The fault suite: real processes are killed, stopped, interrupted and starved, and must end in the undisturbed result.

usage: python -m faults.suite [RUNS] [NAME ...]     (make faults; 20 runs of the first fault, fewer of the others)
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from faults import hosts
from faults.jobs import Outcome, disturb, finish, outcome, start, sweep
from faults.silences import SHORT, cut, cut_alone, hanging, hanging_alone, hanging_mpi
from faults.train_jobs import killed_train_mpi, killed_train_torch


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


def asked(n: int, folder: Path, rng: random.Random) -> Outcome:
    """SIGTERM of the launcher of a training loop of one's own, which must save and say how to go on."""
    assert disturb("training", n, folder, rng, signal.SIGTERM, "launcher") != 0
    assert "give the same command again to go on" in (folder / "output").read_text()
    return outcome("training", n, folder, finish(start("training", n, folder)))


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
        code = finish(start("all", n, folder, pause=0))
        warned = "No space left on device" in (folder / "output").read_text()
        found = outcome("all", n, folder, code)
    finally:
        subprocess.run(["umount", str(place)], check=False)
    return found if warned else Outcome(False, found.lost, found.equal, "the disk was never full")


FAULTS: dict[str, tuple[str, Callable[[int, Path, random.Random], Outcome], list[int]]] = {
    "killed": ("kill -9 of a worker, torchrun --max-restarts", killed, [2, 4] * 10),
    "killed-mpi": ("kill -9 of a rank, mpiexec given again", killed_mpi, [2, 4]),
    "train": ("kill -9 under `dsgt train`, torchrun --max-restarts", killed_train_torch, [2, 3]),
    "train-mpi": ("kill -9 under `dsgt train`, mpiexec given again", killed_train_mpi, [2, 3]),
    "terminated": ("SIGTERM of torchrun, given again", terminated, [2, 4] * 2),
    "hanging": ("SIGSTOP of a worker, torchrun --max-restarts", hanging, [2, 4, 4]),
    "hanging-mpi": ("SIGSTOP of a rank, mpiexec given again", hanging_mpi, [2, 4]),
    "hanging-alone": ("SIGSTOP of a node, each started by itself and again", hanging_alone, [4, 4]),
    "cut-alone": ("the link between two machines is cut, a node each", cut_alone, [2]),
    "cut": ("the link between two machines is cut, torchrun given again", cut, [4, 4]),
    "asked": ("SIGTERM of torchrun, a loop with checkpoint.Training, given again", asked, [2, 4]),
    "interrupted": ("SIGINT of a simulation, given again", interrupted, [4] * 3),
    "damaged": ("SIGTERM, then a part is truncated, given again", damaged, [2, 4]),
    "full-disk": ("a full disk while saving", full_disk, [4]),
}


def attempt(name: str, number: int) -> Outcome:
    """One run of a fault; whatever goes wrong in it is its outcome."""
    _, fault, sizes = FAULTS[name]
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        try:
            found = fault(sizes[number], folder, random.Random(f"{name} {number}"))
        except (AssertionError, subprocess.SubprocessError):
            found = Outcome(False, 0, False, traceback.format_exc() + (folder / "output").read_text())
        finally:
            sweep(folder)
    print(
        f"{name} {number}: survived {found.survived}, lost {found.lost}, equal {found.equal}, said after "
        f"{found.waited:.1f} s\n{found.says}",
        file=sys.stderr,
    )
    return found


def main(most: int, names: list[str]) -> int:
    """The table. Two runs at a time: a job mostly waits for processes to start and to time out."""
    print("| fault | nodes | runs | survived | most rounds lost | error within | result equal |")
    print("|---|---|---:|---:|---:|---:|---:|")
    bad = 0
    for name in names or FAULTS:
        title, _, sizes = FAULTS[name]
        nodes = ", ".join(map(str, sorted(set(sizes[:most]))))
        if name.startswith("cut") and (why := hosts.forbidden()):
            print(f"| {title} | {nodes} | skipped: {why} | | | | |", flush=True)
            continue
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(partial(attempt, name), range(len(sizes[:most]))))
        survived, equal = (sum(getattr(o, key) for o in found) for key in ("survived", "equal"))
        counted, waited = [o.lost for o in found if o.lost is not None], max(o.waited for o in found)
        lost = max(counted) if counted else ""
        said = f"{waited:.1f} s of {SHORT:g}" if waited else ""
        print(f"| {title} | {nodes} | {len(found)} | {survived} | {lost} | {said} | {equal} |", flush=True)
        bad += 2 * len(found) - survived - equal
    return bad


if __name__ == "__main__":
    sys.exit(min(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:]), 1))
