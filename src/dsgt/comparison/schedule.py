"""The runs of a comparison as they become known: those that tune a learning rate, then the others."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dsgt.comparison.job import Job
from dsgt.comparison.measured import Row
from dsgt.comparison.settings import Settings
from dsgt.comparison.tuning import wanted


class Schedule:
    """``next`` gives the jobs that what is finished asks for; each once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rows: dict[Job, list[Row]] = {}
        self._given: set[Job] = set()

    def next(self) -> list[Job]:
        """Seed after seed, so that a process builds the problem of a seed once."""
        found = [job for method in self.settings.methods for job in self._wanted(method) if job not in self._given]
        self._given.update(found)
        return sorted(found, key=lambda job: job.seed)

    def add(self, job: Job, rows: list[Row]) -> None:
        self.rows[job] = rows

    @property
    def total(self) -> int:
        """How many runs there will be, as far as that is known."""
        reported = {job.method for job in self._given if not job.tuning}
        return len(self._given) + self.settings.seeds * (len(self.settings.methods) - len(reported))

    def in_order(self) -> list[Row]:
        """The rows of all runs, the same however many workers did them."""
        place = {method: i for i, method in enumerate(self.settings.methods)}
        jobs = sorted(self.rows, key=lambda job: (place[job.method], job.lr, job.seed))
        return [row for job in jobs for row in self.rows[job]]

    def _wanted(self, method: str) -> list[Job]:
        ends = {(job.lr, job.seed): _end(rows) for job, rows in self.rows.items() if job.method == method}
        return [Job(self.settings, method, lr, seed) for lr, seed in wanted(self.settings, ends)]


def _end(rows: list[Row]) -> float:
    last: Mapping[str, float] = rows[-1]
    return last["loss"] if last["loss"] is not None and math.isfinite(last["loss"]) else math.inf
