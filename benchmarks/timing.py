"""The clock of the benchmarks: contenders take turns, so that a busy moment hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def in_turn(contenders: dict[str, Callable[[], Any]], turns: int, warm: int = 2) -> dict[str, float]:
    """The median seconds of each; the first turns load things and are not counted."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(warm + turns):
        for name, act in contenders.items():
            began = time.perf_counter()
            act()
            if turn >= warm:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(some) for name, some in times.items()}
