"""Independent runs over worker processes, telling how far each is."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue

from dsgt.comparison.job import Checkpoints, Job, Row

PATIENCE = 0.1
"""Seconds between two looks at what the workers say."""


@dataclass(frozen=True)
class News:
    """How far a run is: so many of its rounds, and its loss there."""

    job: Job
    round: int
    rounds: int
    loss: float


Watch = Callable[[News], None]


def results(
    jobs: Sequence[Job], workers: int, watch: Watch | None, checkpoints: Checkpoints | None
) -> Iterator[tuple[Job, list[Row]]]:
    """Each job with its rows, in the order in which they finish."""
    if workers < 2 or len(jobs) < 2:
        for job in jobs:
            yield job, job(_teller(job, watch), checkpoints)
        return
    spawn = get_context("spawn")
    queue: SimpleQueue[News] = spawn.SimpleQueue()
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_prepare, initargs=(queue,))
    try:
        running = {pool.submit(_work, job, checkpoints): job for job in jobs}
        while running:
            done, _ = wait(running, timeout=PATIENCE, return_when=FIRST_COMPLETED)
            while not queue.empty():
                news = queue.get()
                if watch is not None:
                    watch(news)
            for future in done:
                yield running.pop(future), future.result()
    except BaseException:  # an interrupt must not wait for runs of minutes
        processes = list(pool._processes.values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
        raise
    pool.shutdown()


_queue: SimpleQueue[News]


def _prepare(queue: SimpleQueue[News]) -> None:
    """A worker leaves Ctrl-C to its parent, which ends it."""
    global _queue
    _queue = queue
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(job: Job, checkpoints: Checkpoints | None) -> list[Row]:
    return job(_teller(job, lambda news: _queue.put(news)), checkpoints)


def _teller(job: Job, watch: Watch | None) -> Callable[[int, int, float], None] | None:
    """Passes on what a job says, but not more often than a person could see."""
    if watch is None:
        return None
    last = 0.0

    def tell(k: int, rounds: int, loss: float) -> None:
        nonlocal last
        if k == rounds or time.monotonic() - last > PATIENCE:
            last = time.monotonic()
            watch(News(job, k, rounds, loss))

    return tell
