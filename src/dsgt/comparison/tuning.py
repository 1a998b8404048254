"""Which runs a method still needs: the same rule for every method, and a function of what is known so far.

Every learning rate of the grid runs with the tuning seeds. While the best of them is the largest or the smallest, the
grid grows by one step beyond it, at most ``grow`` times. Then the best runs with the seeds that are reported; should
one of these diverge there, the next best does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from dsgt.comparison.settings import Settings

Ends = Mapping[tuple[float, int], float]
"""The final loss of every finished run of a method by learning rate and seed, infinite where it diverged."""


def wanted(settings: Settings, ends: Ends) -> list[tuple[float, int]]:
    """The runs to be done next; none when the method is finished."""
    grid = sorted(set(settings.lrs))
    if not settings.tuned:
        return _missing(grid, settings.reported_seeds, ends)
    for grown in range(settings.grow + 1):
        if missing := _missing(grid, settings.tuning_seeds_used, ends):
            return missing
        loss = {lr: fmean(ends[lr, seed] for seed in settings.tuning_seeds_used) for lr in grid}
        further = beyond(grid, min(grid, key=loss.__getitem__))
        if further is None or grown == settings.grow:
            break
        grid = sorted([*grid, further])
    for lr in sorted(grid, key=loss.__getitem__):
        if math.isfinite(loss[lr]):
            if missing := _missing([lr], settings.reported_seeds, ends):
                return missing
            if all(math.isfinite(ends[lr, seed]) for seed in settings.reported_seeds):
                return []
    return []


def beyond(grid: Sequence[float], best: float) -> float | None:
    """One step further, as wide as the last one on that side; None where the best is inside the grid."""
    if best == grid[-1]:
        return _tidy(best * grid[-1] / grid[-2])
    if best == grid[0]:
        return _tidy(best * grid[0] / grid[1])
    return None


def _missing(lrs: Sequence[float], seeds: Sequence[int], ends: Ends) -> list[tuple[float, int]]:
    return [(lr, seed) for lr in lrs for seed in seeds if (lr, seed) not in ends]


def _tidy(lr: float) -> float:
    return float(f"{lr:.6g}")
