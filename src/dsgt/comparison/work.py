"""Independent runs over worker processes, telling how far each is."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.queues import SimpleQueue

from dsgt.comparison.job import Checkpoints, Job, together
from dsgt.comparison.measured import Row
from dsgt.comparison.settings import Settings
from dsgt.core import Algorithm
from dsgt.extras import explained
from dsgt.processes import POLL_SECONDS, queue, run_tasks
from dsgt.run import Spent
from dsgt.topologies.usable import known as known_weights

with explained():
    import cloudpickle

Which = tuple[str, tuple[float, ...], int]
"""The method, learning rates and seed of jobs: their settings, which may hold a data set, go to a worker once. Several
learning rates where one pass serves them all."""


@dataclass(frozen=True)
class News:
    """How far a run is: so many of its rounds, and its loss there."""

    job: Job
    round: int
    rounds: int
    loss: float
    spent: Spent | None = None
    """When it is done: what time it took."""


Watch = Callable[[News], None]
Tell = Callable[[int, int, float, Spent | None], None]
Said = tuple[tuple[str, float, int], int, int, float, Spent | None]


def run_jobs(
    jobs: Sequence[Job],
    done: Callable[[Job, list[Row]], Sequence[Job]],
    workers: int,
    watch: Watch | None,
    checkpoints: Checkpoints | None,
) -> None:
    """Run them all; ``done`` is given each with its rows when it is finished, and gives those that follow from it.

    All are of the same settings.
    """
    if workers < 2 or len(jobs) < 2:
        left = deque(in_passes(jobs))
        while left:
            some = left.popleft()
            for job, rows in zip(some, _rows(some, watch, checkpoints), strict=True):
                left.extend(in_passes(done(job, rows)))
        return
    known: dict[tuple[str, float, int], Job] = {}
    said: SimpleQueue[Said] = queue()

    def listen() -> None:
        while not said.empty():
            which, k, rounds, loss, spent = said.get()
            if watch is not None:
                watch(News(known[which], k, rounds, loss, spent))

    def whiches(some: Sequence[Job]) -> list[Which]:
        known.update({(job.method, job.lr, job.seed): job for job in some})
        return [(those[0].method, tuple(job.lr for job in those), those[0].seed) for those in in_passes(some)]

    def more(which: Which, found: list[list[Row]]) -> list[Which]:
        method, lrs, seed = which
        return whiches(
            [job for lr, rows in zip(lrs, found, strict=True) for job in done(known[method, lr, seed], rows)]
        )

    act = partial(_work, checkpoints=checkpoints)
    # what is defined in a script or a notebook goes there by value
    given = (said, cloudpickle.dumps((jobs[0].settings, known_weights)))
    tasks = run_tasks(
        act,
        whiches(jobs),
        workers,
        prepare=_prepare,
        given=given,
        meanwhile=listen,
        more=more,
    )
    for _ in tasks:
        pass


_said: SimpleQueue[Said]
_settings: Settings


def _prepare(said: SimpleQueue[Said], settings: bytes) -> None:
    global _said, _settings
    _said = said
    _settings, weights = pickle.loads(settings)
    known_weights.update(weights)


def in_passes(jobs: Sequence[Job]) -> list[list[Job]]:
    """Those that go through one pass side by side: of one asynchronous method and one seed."""
    found: dict[object, list[Job]] = {}
    for job in jobs:
        alone = isinstance(job.settings.algorithm(job.method), Algorithm)
        found.setdefault((job.method, job.seed, job.lr if alone else None), []).append(job)
    return list(found.values())


def _work(which: Which, checkpoints: Checkpoints | None) -> list[list[Row]]:
    method, lrs, seed = which
    jobs = [Job(_settings, method, lr, seed) for lr in lrs]

    def tell(news: News) -> None:
        job = news.job
        _said.put(((job.method, job.lr, job.seed), news.round, news.rounds, news.loss, news.spent))

    try:
        return _rows(jobs, tell, checkpoints)
    except Exception as error:
        if type(error).__module__.split(".")[0] in {"builtins", "dsgt", "torch"}:
            raise
        raise RuntimeError(f"{jobs[0]}: {type(error).__name__}: {error}") from error  # its class may not be known there


def _rows(jobs: Sequence[Job], watch: Watch | None, checkpoints: Checkpoints | None) -> list[list[Row]]:
    tellers = {job: _teller(job, watch) for job in jobs}
    if len(jobs) == 1:
        return [jobs[0](tellers[jobs[0]], checkpoints)]
    return together(jobs, lambda job, *news: None if (tell := tellers[job]) is None else tell(*news))


def _teller(job: Job, watch: Watch | None) -> Tell | None:
    return None if watch is None else _sparing(lambda *numbers: watch(News(job, *numbers)))


def _sparing(tell: Tell) -> Tell:
    """Passes on what a job says, but not more often than a person could see."""
    last = 0.0

    def spare(k: int, rounds: int, loss: float, spent: Spent | None) -> None:
        nonlocal last
        if k == rounds or time.monotonic() - last > POLL_SECONDS:
            last = time.monotonic()
            tell(k, rounds, loss, spent)

    return spare
