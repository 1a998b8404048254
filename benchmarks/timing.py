"""The clock of the benchmarks: contenders take turns, so that a busy moment hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def in_turn(
    contenders: dict[str, Callable[[], Any]],
    turns: int,
    warm: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The median seconds of each; the first turns load things and are not counted.

    ``time.process_time`` as the clock leaves out the time in which others had the core."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(warm + turns):
        for name, act in contenders.items():
            began = clock()
            act()
            if turn >= warm:
                times[name].append(clock() - began)
    return {name: statistics.median(some) for name, some in times.items()}
