"""Faults that nobody is told of: a node that hangs, a cable that is pulled. The others must say who is silent."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from faults.hosts import CABLE, Hosts, two_hosts
from faults.jobs import TORCHRUN, Outcome, disturbed, finish, moment, outcome, process, start, worker
from support.cases import graph
from support.launch import HANGING, free_port

SHORT = 8.0
"""Seconds that a node waits for a neighbour here."""
PAUSE = 0.015
Jobs = list[subprocess.Popen[bytes]]


def hanging(n: int, folder: Path, rng: random.Random) -> Outcome:
    """SIGSTOP of a worker under torchrun, which starts all of them again when its neighbours have ended."""
    job = start("torch", n, folder, PAUSE, SHORT)
    victim, since = _stop(n, folder, rng, job)
    code = finish(job)
    return _checked(outcome("torch", n, folder, code), _said(folder, since), n, victim)


def hanging_mpi(n: int, folder: Path, rng: random.Random) -> Outcome:
    """SIGSTOP of a rank under mpiexec ends the job with an exit code; the same command is given again."""
    job = start("mpi", n, folder, PAUSE, SHORT)
    victim, since = _stop(n, folder, rng, job)
    assert finish(job) not in (0, -signal.SIGKILL)
    said = _said(folder, since)
    again = finish(start("mpi", n, folder, PAUSE, SHORT))
    return _checked(outcome("mpi", n, folder, again), said, n, victim)


def hanging_alone(n: int, folder: Path, rng: random.Random) -> Outcome:
    """SIGSTOP of a node, each started by itself as by srun: every other ends with code 1, and after SIGCONT it too."""
    with ExitStack() as stack:
        jobs = _each_alone(n, folder, stack)
        victim, since = _stop(n, folder, rng, jobs[0])
        codes = [_finish(job) for i, job in enumerate(jobs) if i != victim]
        said = _said(folder, since)
        assert jobs[victim].poll() is None, "the stopped node has ended"
        jobs[victim].send_signal(signal.SIGCONT)
        codes.append(_finish(jobs[victim]))
        assert codes == [1] * n, codes
        assert {node for node, _, _ in said} == {*range(n)} - {victim}, said
        again = [_finish(job) for job in _each_alone(n, folder, stack)]
    return _checked(outcome("torch", n, folder, max(again)), said, n, victim)


def cut_alone(n: int, folder: Path, rng: random.Random) -> Outcome:
    """Two machines with a node each, started by itself; the cable is pulled and mended, and both start again."""
    assert n == 2
    with ExitStack() as stack:
        hosts = stack.enter_context(two_hosts())
        jobs = _each_alone(n, folder, stack, hosts)
        moment(folder, rng, jobs[0])
        since = time.time()
        hosts.cut()
        disturbed(folder)
        codes = [_finish(job) for job in jobs]
        assert codes == [1, 1], codes
        said = _said(folder, since)
        assert {(node, neighbour) for node, neighbour, _ in said} == {(0, 1), (1, 0)}, said
        hosts.mend()
        again = [_finish(job) for job in _each_alone(n, folder, stack, hosts)]
    return _checked(outcome("torch", n, folder, max(again)), said, n, None)


def cut(n: int, folder: Path, rng: random.Random) -> Outcome:
    """Two machines with half of the nodes each, and torchrun on both; the cable is pulled, mended, and both start
    again. Both must end with an exit code, after naming a node on the other side.
    """
    halves = [set(range(n // 2)), set(range(n // 2, n))]
    across = {v: {u for u in graph(n)[v] if (u in halves[0]) != (v in halves[0])} for v in range(n)}
    with ExitStack() as stack:
        hosts = stack.enter_context(two_hosts())

        def both() -> Jobs:
            port = str(free_port())
            return [_torchrun_on(hosts, host, n // 2, port, folder, stack) for host in (0, 1)]

        jobs = both()
        moment(folder, rng, jobs[0])
        since = time.time()
        hosts.cut()
        disturbed(folder)
        codes = [_finish(job) for job in jobs]
        assert codes == [1, 1], codes
        said = _said(folder, since)
        hosts.mend()
        again = [_finish(job) for job in both()]
    for half in halves:
        assert any(node in half and neighbour in across[node] for node, neighbour, _ in said), said
    return _checked(outcome("torch", n, folder, max(again)), said, n, None)


def _stop(n: int, folder: Path, rng: random.Random, job: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Stop a random node at a random moment: which, and when."""
    moment(folder, rng, job)
    victim = rng.randrange(n)
    os.kill(int((folder / "notes" / f"pid-{victim}").read_text()), signal.SIGSTOP)
    disturbed(folder)
    return victim, time.time()


def _said(folder: Path, since: float) -> list[tuple[int, int | None, float]]:
    """Which node named which neighbour, after how many seconds."""
    notes = [json.loads(path.read_text()) for path in (folder / "notes").glob("error-*")]
    return [(note["node"], note["neighbour"], note["time"] - since) for note in notes]


def _checked(found: Outcome, said: list[tuple[int, int | None, float]], n: int, victim: int | None) -> Outcome:
    """Everybody who spoke has named a neighbour of its own, and somebody the silent one. Not all of its neighbours: one
    may wait for another which has noticed first, and a launcher ends those who have not spoken yet."""
    assert said, "nobody has named anybody"
    assert all(neighbour in graph(n)[node] for node, neighbour, _ in said), said
    assert victim is None or victim in {neighbour for _, neighbour, _ in said}, (victim, said)
    return replace(found, waited=max(seconds for _, _, seconds in said))


def _each_alone(n: int, folder: Path, stack: ExitStack, hosts: Hosts | None = None) -> Jobs:
    """Every node started by itself, as by srun or over ssh; node i on host i where there are hosts."""
    about = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, *worker("torch", folder, PAUSE, SHORT)]
    if hosts is not None:
        about |= {"MASTER_ADDR": hosts.addresses[0], "GLOO_SOCKET_IFNAME": CABLE}
    commands = [command if hosts is None else hosts.on(i, *command) for i in range(n)]
    return [_watched(process(commands[i], folder, RANK=str(i), **about), stack) for i in range(n)]


def _torchrun_on(
    hosts: Hosts, host: int, nodes: int, port: str, folder: Path, stack: ExitStack
) -> subprocess.Popen[bytes]:
    where = (f"--node-rank={host}", f"--master-addr={hosts.addresses[0]}", f"--master-port={port}")
    options = ("--nnodes=2", f"--nproc-per-node={nodes}", *where, *TORCHRUN[1:])
    command = [sys.executable, "-m", "torch.distributed.run", *options, *worker("torch", folder, PAUSE, SHORT)]
    return _watched(process(hosts.on(host, *command), folder, GLOO_SOCKET_IFNAME=CABLE), stack)


def _watched(job: subprocess.Popen[bytes], stack: ExitStack) -> subprocess.Popen[bytes]:
    """It does not outlive the test."""
    stack.callback(_end, job)
    return job


def _end(job: subprocess.Popen[bytes]) -> None:
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def _finish(job: subprocess.Popen[bytes]) -> int:
    return job.wait(HANGING)
