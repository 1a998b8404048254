"""One run of a comparison: what is needed to do it anywhere, and to know it again."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from dsgt._version import __version__
from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.asynchronous.run import Grid
from dsgt.checkpoint import fingerprint
from dsgt.comparison.fields import SEEDS_LIMIT
from dsgt.comparison.measured import LOSS, Row, apart, measurable
from dsgt.comparison.settings import Settings
from dsgt.core import Algorithm
from dsgt.divergence import DivergedError
from dsgt.metrics import Metric
from dsgt.problems.base import Problem
from dsgt.run import Spent, run
from dsgt.threads import threads

NOT_COMPUTING = {
    "__init__.py",
    "__main__.py",
    "cli.py",
    "commands",
    "extras.py",
    "notebook.py",
    "report",
    "reproduce",
    "theory",
}
"""Parts of the package that no row depends on."""

FEW = 4
"""How often a run that only tunes is measured: its last loss counts, and divergence should not be noticed too late."""
LOSS_LIMIT, LOSS_GROWTH = 1000.0, 400.0
"""A run whose loss is above both the one and so many times its start has diverged. Who guesses among ten classes has a
mean loss of ln 10 = 2.3."""


@dataclass(frozen=True)
class Checkpoints:
    """Of runs that are not finished: where, and every how many rounds."""

    folder: Path
    every: int


@dataclass(frozen=True)
class Job:
    settings: Settings
    method: str
    lr: float
    seed: int

    def __str__(self) -> str:
        seed = f"tuning seed {self.seed - SEEDS_LIMIT}" if self.tuning else f"seed {self.seed}"
        return f"{self.method}, lr {self.lr:g}, {seed}"

    @property
    def tuning(self) -> bool:
        """Whether it helps to choose a learning rate, and is not reported."""
        return self.seed >= SEEDS_LIMIT

    @property
    def key(self) -> dict[str, Any]:
        """Everything that determines the rows, the code included: a run with the same key need not be done again."""
        W, _ = self.settings.weights_for(self.method)
        which = {"methods", "lrs", "grow", "tuning_seeds", "seeds", "target", "data_dir", "weights", "graph"}
        which |= set() if self.tuning else {"validation"}
        return self.settings.model_dump(mode="json", exclude=which) | {
            "method": fingerprint.method(self.settings.algorithm(self.method)),
            "own": self.settings.own_text(self.method, self.seed),
            "lr": self.lr,
            "seed": self.seed,
            "W": fingerprint.weights(W),
            "torch": torch.__version__,
            "dsgt": f"{__version__} {_code()}",
        }

    @property
    def name(self) -> str:
        """Of its checkpoints' folder: other rows, another name."""
        return hashlib.sha256(json.dumps(self.key, sort_keys=True).encode()).hexdigest()[:16]

    def __call__(
        self,
        watch: Callable[[int, int, float, Spent | None], None] | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> list[Row]:
        """The metric rows; a diverged run ends with one that says so, its loss infinite.

        ``watch`` is told the round, how many there will be, and the loss, whenever the run is measured, and at its end
        what time it took. With ``checkpoints`` the run goes on from where an earlier process was stopped.
        """
        algorithm = self.settings.algorithm(self.method)
        if not isinstance(algorithm, Algorithm):
            return together([self], None if watch is None else lambda _, *news: watch(*news))[0]
        problem = self.settings.problem(self.seed)
        rounds = self.settings.rounds(problem, self.method, self.seed)
        every, seldom = (max(1, rounds // FEW),) * 2 if self.tuning else self.settings.every(rounds)
        rows: list[Row] = []

        def keep(row: Row) -> None:
            rows.append(self.label | row)
            if watch is not None:
                watch(row["round"], rounds, row["loss"], None)

        folder = None if checkpoints is None else checkpoints.folder / self.name
        try:
            with threads(1):  # the rows must not depend on how many cores there are
                found = run(
                    algorithm,
                    problem,
                    self.settings.network(self.method, problem, self.seed),
                    rounds=rounds,
                    lr=self.settings.rate(self.lr, rounds),
                    every=every,
                    metrics=self.metrics(problem, seldom, rounds),
                    seed=self.seed,
                    watch=keep,
                    loss_limit=_loss_limit(self.settings, self.seed),
                    checkpoint_dir=folder,
                    checkpoint_every=None if checkpoints is None else checkpoints.every,
                    resume=folder is not None,
                )
            if watch is not None and found.spent.training:
                watch(rounds, rounds, rows[-1]["loss"], found.spent)
        except DivergedError as diverged:
            if rows and rows[-1]["round"] == diverged.k:  # the loss that ended it
                rows.pop()
            keep(_gone(diverged))
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        return rows

    @property
    def label(self) -> Row:
        """What all its rows begin with."""
        named: Row = {"method": self.method, "lr": self.lr, "seed": self.seed}
        return named | ({"tuning": True} if self.tuning else {})

    @property
    def evaluations(self) -> int:
        return FEW if self.tuning else self.settings.evaluations

    def metrics(self, problem: Problem, seldom: int, rounds: int) -> dict[str, Metric]:
        """The first reported seed is the one whose nodes are looked at one by one."""
        if self.tuning:
            return LOSS
        seen = measurable(problem, nodes=self.settings.node_accuracy, every=seldom, last=rounds)
        return seen | (apart(problem) if self.seed == self.settings.reported_seeds[0] else {})


def together(
    jobs: Sequence[Job], watch: Callable[[Job, int, int, float, Spent | None], None] | None = None
) -> list[list[Row]]:
    """The rows of each, for jobs of one asynchronous method and one seed: who wakes when does not depend on the
    learning rate, so they go through one pass. ``watch`` as in ``Job``."""
    first = jobs[0]
    settings, evaluations = first.settings, first.evaluations
    algorithm, problem = settings.algorithm(first.method), settings.problem(first.seed)
    assert isinstance(algorithm, AsyncAlgorithm)
    rows: list[list[Row]] = [[] for _ in jobs]

    def keep(r: int, row: Row) -> None:
        rows[r].append(jobs[r].label | row)
        if watch is not None:
            watch(jobs[r], len(rows[r]) - 1, evaluations, row["loss"], None)

    with threads(1):
        grid = Grid(
            algorithm,
            problem,
            settings.network(first.method, problem, first.seed),
            lrs=[job.lr for job in jobs],
            seeds=[first.seed],
            metrics=first.metrics(problem, 1, evaluations),
            watch=keep,
        )
        seconds = settings.ends.amount
        limit = _loss_limit(settings, first.seed)
        for r, found in enumerate(grid.run(seconds=seconds, every=seconds / evaluations, loss_limit=limit)):
            if isinstance(found, DivergedError):
                keep(r, _gone(found))
    return rows


@lru_cache(maxsize=8)
def _loss_limit(settings: Settings, seed: int) -> float:
    """The same for all methods: they begin with the same model."""
    problem = settings.problem(seed)
    return max(LOSS_LIMIT, LOSS_GROWTH * float(problem.loss(problem.start(seed))))


def _gone(diverged: DivergedError) -> Row:
    return {"round": diverged.k, "loss": math.inf, "diverged": True}


@lru_cache(maxsize=1)
def _code() -> str:
    """A hash of this package's own text: who changes a method does not want yesterday's rows."""
    digest = hashlib.sha256()
    folder = Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).parts[0] in NOT_COMPUTING:
            continue
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
