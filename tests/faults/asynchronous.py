"""Nodes of asynchronous methods, real processes, are killed by kill -9 and come back, and one is stopped for ten
seconds; the others must go on, nothing may be lost, and all must end right.

usage: python -m faults.asynchronous [KILLS]     (part of make faults; by default 4 kills for each of the 5 methods)
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from faults.async_jobs import AsyncJob, ended, started
from workers.async_worker import NODES

PAUSE = 10.0


def lived(name: str, kills: int, rng: random.Random) -> str:
    """What happened; an AssertionError says what should not have."""
    with tempfile.TemporaryDirectory() as folder, started(Path(folder), [name] * NODES) as job:
        said = []
        job.all_met()
        for _ in range(kills):
            victim = rng.randrange(NODES)
            soon = job.progress(victim)[0] + rng.randrange(9, 40)
            job.until(lambda victim=victim, soon=soon: job.progress(victim)[0] >= soon)
            job.kill(victim)
            job.others_go_on(without=victim)
            k = job.progress(victim)[0]
            job.processes[victim] = job.start(victim, name)
            job.until(lambda victim=victim, k=k: job.progress(victim)[0] not in (0, k))
            said.append(f"{victim}: {k} -> {job.progress(victim)[0]}")
        wakes = paused(job, rng.randrange(NODES))
        job.finish()
        wrong = ended(Path(folder), name)
    return f"killed {', '.join(said)}; during a stop of {PAUSE:g} s the others woke {wakes} times; mass to {wrong:.0e}"


def paused(job: AsyncJob, node: int) -> list[int]:
    """How often each of the others woke meanwhile."""
    others = [i for i in range(NODES) if i != node]
    before = [job.progress(i)[0] for i in others]
    job.stopped(node, lambda _: time.sleep(PAUSE))
    found = [job.progress(i)[0] - k for i, k in zip(others, before, strict=True)]
    assert all(found), f"node {node} was stopped, and others stopped too: {found}"
    return found


def main(kills: int) -> int:
    failed = 0
    for number, name in enumerate(ASYNCHRONOUS):
        try:
            said = lived(name, kills, random.Random(number))
        except AssertionError as error:
            failed += 1
            said = f"FAILED: {error}"
        print(f"{name:11} {said}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4))
