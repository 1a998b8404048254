"""Every method at every learning rate with every seed: the same budget for all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from dsgt.checkpoint.journal import Journal
from dsgt.comparison.job import Checkpoints, Job
from dsgt.comparison.measured import Row
from dsgt.comparison.result import Comparison
from dsgt.comparison.settings import Settings
from dsgt.comparison.work import Watch, run_jobs

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
    """Run every method at every learning rate with every seed: the same budget for all.

    A method's learning rate is the one with the lowest final training loss of the mean model, averaged over the
    seeds. With a ``folder`` every finished run is noted there at once, and unless ``resume=False`` a run that was
    finished there before, with the same settings and the same code, is not done again.
    With ``checkpoint_every`` the runs that are not finished are saved there too, every so many rounds.
    Instead of ``settings`` its fields may be given, and then objects may stand for names: ``methods=[DSGT(),
    MyMethod()]``, ``model`` a module or what makes one, ``data=(train, test)``, ``weights=W``. ``problem``, or a
    function of ``seed`` that gives one, stands for data, model, nodes, partition and batch together.
    ``watch`` hears how far each run is; ``finished`` is told how many runs of how many are done, and which with what.
    """
    if settings is not None and given:
        raise ValueError(f"{', '.join(given)} cannot be given beside settings; give them in the settings")
    settings = Settings.of(given) if settings is None else settings
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
    jobs = [Job(settings, *which) for which in product(settings.methods, settings.lrs, range(settings.seeds))]
    journal = None if folder is None else Journal(Path(folder) / FINISHED, {"kind": "comparison"}, resume=resume)
    rows = {} if journal is None else _known(journal, jobs)
    for done, (job, found) in enumerate(rows.items(), start=1):
        if finished is not None:
            finished(done, len(jobs), job, found)
    # Seed after seed, so that a process builds the problem of a seed once.
    left = sorted((job for job in jobs if job not in rows), key=lambda job: job.seed)
    for job, found in run_jobs(left, workers, watch, checkpoints):
        rows[job] = found
        if journal is not None:
            journal.append({"key": job.key, "rows": found})
        if finished is not None:
            finished(len(rows), len(jobs), job, found)
    return Comparison(settings, [row for job in jobs for row in rows[job]])


def check(settings: Settings) -> None:
    """Whatever could be wrong comes out before any run: the weights of every method, the shards of every seed."""
    for method in settings.methods:
        settings.weights_for(method)
    for seed in reversed(range(settings.seeds)):  # the first seed's problem is the one that is used next
        settings.problem(seed)


def _known(journal: Journal, jobs: list[Job]) -> dict[Job, list[Row]]:
    """The runs that the journal has, if they are wanted."""
    known = {_text(piece["key"]): piece["rows"] for piece in journal.finished if {"key", "rows"} <= piece.keys()}
    return {job: known[text] for job in jobs if (text := _text(job.key)) in known}


def _text(key: Mapping[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)
