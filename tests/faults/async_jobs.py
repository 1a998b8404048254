"""Four processes of an asynchronous method: start them, kill them, stop them, and see whether they ended right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.mail import Links
from dsgt.asynchronous.node import Node, mass
from dsgt.networks.roster import create
from dsgt.topologies.changing import Fixed
from support.launch import HANGING, TESTS, environment, free_ports
from workers.async_worker import CENTRES, NODES, W, lr_and_goal, start_of

NEAR = 1e-11
"""How far from its goal a node may end."""


class AsyncJob:
    def __init__(self, folder: Path) -> None:
        self.folder = self.progress_in = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, node: int, what: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
        folder = folder or self.folder
        command = [sys.executable, str(TESTS / "workers" / "async_worker.py"), str(folder), str(node), what]
        with (folder / f"said-{node}.txt").open("a") as out:
            return subprocess.Popen(command, env=environment(), stdout=out, stderr=subprocess.STDOUT)

    def until(self, true: Callable[[], bool], *, dead: tuple[int, ...] = ()) -> None:
        """Wait for it, as long as all processes but the dead ones live."""
        deadline = time.monotonic() + HANGING
        while not true():
            for i, process in enumerate(self.processes):
                assert i in dead or process.poll() in (None, 0), self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.02)

    def progress(self, node: int) -> tuple[int, float]:
        """How often it has woken, and how far it is from its goal."""
        try:
            k, distance = (self.progress_in / f"progress-{node}").read_text().split()
        except FileNotFoundError:
            return 0, torch.inf
        return int(k), float(distance)

    def all_met(self) -> None:
        """A node begins when it has heard all its neighbours: who is killed before is waited for."""
        self.until(lambda: all(self.progress(i)[0] for i in range(NODES)))

    def others_go_on(self, without: int, wakes: int = 30) -> None:
        """All nodes but one wake so often more."""
        before = [self.progress(i)[0] for i in range(NODES)]
        others = [i for i in range(NODES) if i != without]
        self.until(lambda: all(self.progress(i)[0] >= before[i] + wakes for i in others), dead=(without,))

    def kill(self, node: int) -> None:
        self.processes[node].kill()
        assert self.processes[node].wait() == -signal.SIGKILL, self.said()

    def stopped(self, node: int, meanwhile: Callable[[int], Any]) -> None:
        os.kill(self.processes[node].pid, signal.SIGSTOP)
        try:
            meanwhile(node)
        finally:
            os.kill(self.processes[node].pid, signal.SIGCONT)

    def finish(self) -> None:
        """Let them come near their goal, and end."""
        self.until(lambda: all(self.progress(i)[1] < NEAR for i in range(NODES)))
        (self.progress_in / "enough").touch()
        self.until(lambda: all(process.poll() == 0 for process in self.processes))

    def said(self) -> str:
        files = sorted({*self.folder.glob("said-*"), *self.progress_in.glob("said-*")})
        return "\n".join(f"{file.name}: {file.read_text()}" for file in files)


@contextmanager
def started(folder: Path, what: Sequence[str], folders: Sequence[str] = ("",)) -> Iterator[AsyncJob]:
    """A process for each node; those that are left are killed at the end."""
    ports = iter(free_ports(NODES * len(folders)))
    for name in folders:
        create(folder / name, [f"tcp://127.0.0.1:{next(ports)}" for _ in range(NODES)])
    job = AsyncJob(folder)
    job.processes = [job.start(i, words) for i, words in enumerate(what)]
    try:
        yield job
    finally:
        for process in job.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def ended(folder: Path, name: str) -> float:
    """How much of what is held and given is missing; an AssertionError where something is under way, or the end is
    wrong."""
    algorithm = ASYNCHRONOUS[name]()
    _, goal = lr_and_goal(name)
    nodes = [Node(algorithm, Links.of(Fixed(W), i), start_of(name, i), lambda k: 0.0) for i in range(NODES)]
    for i, node in enumerate(nodes):
        node.restore(torch.load(folder / f"saved-{i}.pt"))
        assert float((node.state[0] - goal).abs().max()) < 10 * NEAR
    for i, node in enumerate(nodes):
        for j, box in node.mail.of.items():
            given = nodes[j].mail.to[i].total
            assert (given is None) == (box.taken is None)
            assert given is None or torch.equal(given, box.taken), f"of what {j} gave to {i} something is under way"
    if algorithm.exact:
        right: Any = sum(node.state.g for node in nodes)
    elif name == "ad-psgd":
        right = CENTRES.sum(0)
    else:
        right = torch.cat([CENTRES.sum(0), torch.tensor([float(NODES)])])
    wrong = float((mass(nodes) - right).abs().max())
    assert wrong < 1e-10, f"{wrong} of the mass is missing"
    return wrong
