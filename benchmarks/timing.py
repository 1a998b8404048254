"""The clock of the benchmarks: contenders take turns, so that a busy moment hits all alike. And their goals."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

GOAL = "goal: "
"""Begins the lines that benchmarks/all.py puts into its table."""


def in_turn(
    contenders: dict[str, Callable[[], Any]],
    turns: int,
    warm: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The median seconds of each; the first turns load things and are not counted.

    ``time.process_time`` as the clock leaves out the time in which others had the core, ``processes_time`` is the same
    for what is done in other processes."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(warm + turns):
        for name, act in contenders.items():
            began = clock()
            act()
            if turn >= warm:
                times[name].append(clock() - began)
    return {name: statistics.median(some) for name, some in times.items()}


def processes_time() -> float:
    """CPU seconds of the processes that this one has started, and theirs, as far as they have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def goal(what: str, found: float, *, most: float | None = None, least: float | None = None) -> None:
    """Say what was wanted and what was reached; without a limit, what was found."""
    wanted = f"at most {most:g}" if most is not None else f"at least {least:g}" if least is not None else ""
    reached = found <= most if most is not None else least is None or found >= least
    said = ("reached" if reached else "missed") if wanted else ""
    print(GOAL + "\t".join((what, f"{found:.3g}", wanted, said)), flush=True)
