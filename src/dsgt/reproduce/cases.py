"""Independent pieces of work over several processes, each kept when it is finished and never repeated.

A case is a frozen dataclass that can be called: its fields are all that determines its rows, so they are its key. A
field that does not (where a data set lies) is declared with ``field(compare=False)``.
"""

from __future__ import annotations

import json
import multiprocessing
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import torch

from dsgt import processes
from dsgt._version import __version__
from dsgt.checkpoint.journal import Journal

Row: TypeAlias = dict[str, Any]
VERSIONS = {"dsgt": __version__, "torch": torch.__version__, "numpy": np.__version__}


class Case(Protocol):
    """A frozen dataclass whose call does the work."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __call__(self) -> list[Row]: ...


def parameters(case: Case) -> Row:
    """What determines a case."""
    return {f.name: getattr(case, f.name) for f in fields(case) if f.compare}


def key(case: Case) -> str:
    """Equal for two cases exactly where they compute the same; the versions belong to it."""
    about = {"case": type(case).__name__} | parameters(case) | {"versions": VERSIONS}
    return json.dumps(about, sort_keys=True)


class Finished:
    """The finished cases of a folder: rows by key."""

    def __init__(self, path: Path | None) -> None:
        """None keeps them in memory only."""
        self._journal = None if path is None else Journal(path, {"kind": "cases"}, resume=True)
        pieces = [] if self._journal is None else self._journal.finished
        self._rows: dict[str, list[Row]] = {p["key"]: p["rows"] for p in pieces if p.keys() >= {"key", "rows"}}

    def __contains__(self, case: Case) -> bool:
        return key(case) in self._rows

    def __getitem__(self, case: Case) -> list[Row]:
        return self._rows[key(case)]

    def add(self, case: Case, rows: list[Row]) -> None:
        rows = json.loads(json.dumps(rows))  # what a later reader will see, to the last bit
        if self._journal is not None:
            self._journal.append({"key": key(case), "rows": rows})
        self._rows[key(case)] = rows


def work(
    cases: Sequence[Case],
    finished: Finished,
    *,
    workers: int = 1,
    told: Callable[[Case], None] | None = None,
) -> None:
    """Do the cases that are not finished, ``workers`` at a time; ``told`` hears of each when it is.

    An interruption or an error loses only the cases that were being worked on.
    """
    left = list({key(case): case for case in cases if case not in finished}.values())
    for case, rows in _done(left, workers):
        finished.add(case, rows)
        if told is not None:
            told(case)


def _done(cases: Sequence[Case], workers: int) -> Iterator[tuple[Case, list[Row]]]:
    if workers < 2 or len(cases) < 2:
        yield from ((case, case()) for case in cases)
    else:
        yield from processes.run_tasks(_rows, cases, workers, prepare=torch.set_num_threads, given=(1,))


def _rows(case: Case) -> list[Row]:
    return case()


def machine() -> str:
    """What a measured time depends on, in a few words."""
    return f"{platform.machine()}, {multiprocessing.cpu_count()} cores, torch {torch.__version__}"
