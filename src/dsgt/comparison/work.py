"""Independent runs over worker processes, telling how far each is."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.queues import SimpleQueue

from dsgt.comparison.job import Checkpoints, Job
from dsgt.comparison.measured import Row
from dsgt.comparison.settings import Settings
from dsgt.extras import explained
from dsgt.processes import POLL_SECONDS, queue, run_tasks
from dsgt.run import Spent
from dsgt.topologies.usable import known as known_weights

with explained():
    import cloudpickle

Which = tuple[str, float, int]
"""The method, learning rate and seed of a job: its settings, which may hold a data set, go to a worker once."""


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
Said = tuple[Which, int, int, float, Spent | None]


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
        left = deque(jobs)
        while left:
            job = left.popleft()
            left.extend(done(job, job(_teller(job, watch), checkpoints)))
        return
    known: dict[Which, Job] = {}
    said: SimpleQueue[Said] = queue()

    def listen() -> None:
        while not said.empty():
            which, k, rounds, loss, spent = said.get()
            if watch is not None:
                watch(News(known[which], k, rounds, loss, spent))

    def whiches(some: Sequence[Job]) -> list[Which]:
        new = {(job.method, job.lr, job.seed): job for job in some}
        known.update(new)
        return list(new)

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
        more=lambda which, rows: whiches(done(known[which], rows)),
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


def _work(which: Which, checkpoints: Checkpoints | None) -> list[Row]:
    job = Job(_settings, *which)
    try:
        return job(_sparing(lambda *numbers: _said.put((which, *numbers))), checkpoints)
    except Exception as error:
        if type(error).__module__.split(".")[0] in {"builtins", "dsgt", "torch"}:
            raise
        raise RuntimeError(f"{job}: {type(error).__name__}: {error}") from error  # its class may not be known elsewhere


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
