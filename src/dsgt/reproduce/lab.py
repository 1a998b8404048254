"""What an experiment is, and the place where it runs its cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeAlias, TypeVar

import pandas as pd
from matplotlib.figure import Figure

from dsgt.reproduce.cases import Case, Finished, parameters, work

Tables: TypeAlias = dict[str, pd.DataFrame]
Told: TypeAlias = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Plan:
    """How large an experiment is. Those with more to choose add it."""

    data: str = "digits"
    seeds: int = 1
    epochs: float = 1.0

    def adjusted(self, *, seeds: int | None = None, epochs: float | None = None) -> Self:
        """The same with other seeds or epochs, as the command line gives them."""
        given: dict[str, Any] = {"seeds": seeds, "epochs": epochs}
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    @property
    def where(self) -> str:
        """For titles: what the numbers were measured on."""
        return {"digits": "digits (8 × 8), not CIFAR-10", "cifar10": "CIFAR-10"}[self.data]


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True)
class Lab:
    """Runs cases over worker processes and keeps what is finished."""

    finished: Finished = field(default_factory=lambda: Finished(None))
    workers: int = 1
    told: Told | None = None
    """Hears how many of the current cases are done, of how many, and which was the last."""
    data_dir: Path | None = None
    """Where CIFAR-10 is."""

    def table(self, cases: Sequence[Case], *, alone: bool = False) -> pd.DataFrame:
        """One line per row of every case, in the order of the cases, beside what determines the case.

        ``alone`` runs one case at a time in this process, for those that measure time."""
        done = sum(case in self.finished for case in cases)
        self._tell(done, len(cases), "")

        def told(case: Case) -> None:
            nonlocal done
            done += 1
            self._tell(done, len(cases), str(case))

        work(cases, self.finished, workers=1 if alone else self.workers, told=told)
        return pd.DataFrame([parameters(case) | row for case in cases for row in self.finished[case]])

    def _tell(self, done: int, total: int, last: str) -> None:
        if self.told is not None:
            self.told(done, total, last)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The lines of a table, a dictionary each."""
    return [{str(k): v for k, v in line.items()} for line in table.to_dict("records")]


@dataclass(frozen=True)
class Experiment(Generic[P]):
    """A figure or a claim of the paper: plans as data, what is measured, and what is drawn and said of it."""

    claim: str
    """What the paper says."""
    full: P
    quick: P
    measure: Callable[[Lab, P], Tables]
    figure: Callable[[Tables, P], Figure]
    findings: Callable[[Tables, P], list[str]]
    """What was found, a sentence each, computed from the tables."""


AnyExperiment: TypeAlias = Experiment[Any]
