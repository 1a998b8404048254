"""Every method at the best learning rate that one rule finds, with the same seeds: the same budget for all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dsgt.checkpoint.journal import Journal
from dsgt.comparison.job import Checkpoints, Job
from dsgt.comparison.measured import Row
from dsgt.comparison.result import Comparison
from dsgt.comparison.schedule import Schedule
from dsgt.comparison.settings import Settings
from dsgt.comparison.work import News, Watch, run_jobs
from dsgt.notebook import Progress, progress
from dsgt.text import short

FINISHED = "finished.jsonl"
"""Where a folder keeps its finished runs."""
UNFINISHED = "unfinished"
"""And the checkpoints of the others."""


def compare(
    settings: Settings | None = None,
    *,
    workers: int = 2,
    folder: Path | str | None = None,
    resume: bool = True,
    checkpoint_every: int | None = None,
    watch: Watch | None = None,
    finished: Callable[[int, int, Job, list[Row]], None] | None = None,
    **given: Any,
) -> Comparison:
    """Choose every method's learning rate by the same rule, and run it there with every seed.

    A method's learning rate is the one with the lowest final training loss of the mean model, averaged over the tuning
    seeds; while it is the largest or the smallest that was tried, the grid grows. With a ``folder`` every finished run
    is noted there at once, and unless ``resume=False`` a run that was finished there before, with the same settings and
    the same code, is not done again.
    With ``checkpoint_every`` the runs that are not finished are saved there too, every so many rounds.
    Instead of ``settings`` its fields may be given, and then objects may stand for names: ``methods=[DSGT(),
    MyMethod()]``, ``model`` a module or what makes one, ``data=(train, test)``, ``weights=W``, ``partition`` shards,
    ``graph`` one of networkx, or functions that make them, ``schedule`` a function of the share of the run.
    ``problem``, or a function of ``seed`` that gives one, stands for data, model, nodes, partition and batch together.
    ``watch`` hears how far each run is; ``finished`` is told how many runs of how many are done, and which with what;
    a notebook shows that below its cell where neither is given.
    """
    if settings is not None and given:
        raise ValueError(f"{', '.join(given)} cannot be given beside settings; give them in the settings")
    settings = Settings.of(given) if settings is None else settings
    if workers < 1:
        raise ValueError(f"workers is {workers}; give how many processes work at a time, at least 1")
    check(settings)
    checkpoints = None
    if checkpoint_every is not None:
        if folder is None or checkpoint_every < 1:
            raise ValueError(
                f"checkpoint_every is {checkpoint_every} and folder {folder}; give a folder and rounds >= 1"
            )
        checkpoints = Checkpoints(Path(folder) / UNFINISHED, checkpoint_every)
        if not resume:
            shutil.rmtree(checkpoints.folder, ignore_errors=True)
    journal = None if folder is None else Journal(Path(folder) / FINISHED, {"kind": "comparison"}, resume=resume)
    known = (
        {} if journal is None else {_text(p["key"]): p["rows"] for p in journal.finished if {"key", "rows"} <= p.keys()}
    )
    schedule = Schedule(settings)
    if finished is None and watch is None and (board := progress()) is not None:
        watch, finished = partial(_show, board, schedule), lambda *_: board.show(*_count(schedule))

    def keep(job: Job, found: list[Row]) -> None:
        schedule.add(job, found)
        if finished is not None:
            finished(len(schedule.rows), max(schedule.total, len(schedule.rows)), job, found)

    def unknown() -> list[Job]:
        """The next jobs that no earlier process has finished."""
        left: list[Job] = []
        while some := schedule.next():
            here = {job: known[text] for job in some if (text := _text(job.key)) in known} if known else {}
            for job, found in here.items():
                keep(job, [row | job.label for row in found])  # it may have had another name
            left += [job for job in some if job not in here]
        return left

    def done(job: Job, found: list[Row]) -> list[Job]:
        if journal is not None:
            journal.append({"key": job.key, "rows": found})
        keep(job, found)
        return unknown()

    run_jobs(unknown(), done, workers, watch, checkpoints)
    return Comparison(settings, schedule.in_order())


def check(settings: Settings) -> None:
    """Whatever could be wrong comes out before any run: the weights of every method, a round of one's own, the shards
    of every seed, what an oracle asks of them, a budget that is not enough for a round."""
    for method in settings.methods:
        settings.check_method(method)
    first = [*settings.tuning_seeds_used, *settings.reported_seeds]
    for seed in reversed(first):  # the first seed's problem is the one that is used next
        problem = settings.problem(seed)
        for method in settings.methods:
            settings.check_oracle(problem, method)
            settings.check_budget(problem, method, seed)


def _count(schedule: Schedule) -> tuple[int, int, str]:
    done = len(schedule.rows)
    total = max(schedule.total, done)
    return done, total, f"{done} of {total} runs done"


def _show(board: Progress, schedule: Schedule, news: News) -> None:
    done, total, said = _count(schedule)
    now = f"{news.job}, round {news.round} of {news.rounds}, loss {short(news.loss)}"
    board.show(done, total, f"{said}; {now}")


def _text(key: Mapping[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)
