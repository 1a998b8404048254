"""Independent runs over worker processes, telling how far each is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue

from dsgt.comparison.job import Checkpoints, Job
from dsgt.comparison.measured import Row
from dsgt.processes import POLL_SECONDS, run_tasks


@dataclass(frozen=True)
class News:
    """How far a run is: so many of its rounds, and its loss there."""

    job: Job
    round: int
    rounds: int
    loss: float


Watch = Callable[[News], None]


def run_jobs(
    jobs: Sequence[Job], workers: int, watch: Watch | None, checkpoints: Checkpoints | None
) -> Iterator[tuple[Job, list[Row]]]:
    """Each job with its rows, in the order in which they finish."""
    if workers < 2 or len(jobs) < 2:
        for job in jobs:
            yield job, job(_teller(job, watch), checkpoints)
        return
    queue: SimpleQueue[News] = get_context("spawn").SimpleQueue()

    def listen() -> None:
        while not queue.empty():
            news = queue.get()
            if watch is not None:
                watch(news)

    act = partial(_work, checkpoints=checkpoints)
    yield from run_tasks(act, jobs, workers, prepare=_prepare, given=(queue,), meanwhile=listen)


_queue: SimpleQueue[News]


def _prepare(queue: SimpleQueue[News]) -> None:
    global _queue
    _queue = queue


def _work(job: Job, checkpoints: Checkpoints | None) -> list[Row]:
    return job(_teller(job, lambda news: _queue.put(news)), checkpoints)


def _teller(job: Job, watch: Watch | None) -> Callable[[int, int, float], None] | None:
    """Passes on what a job says, but not more often than a person could see."""
    if watch is None:
        return None
    last = 0.0

    def tell(k: int, rounds: int, loss: float) -> None:
        nonlocal last
        if k == rounds or time.monotonic() - last > POLL_SECONDS:
            last = time.monotonic()
            watch(News(job, k, rounds, loss))

    return tell
