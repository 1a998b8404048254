"""Which runs a method still needs: the same rule for every method, and a function of what is known so far.

Every learning rate of the grid runs with the tuning seeds. While the best of them is the largest or the smallest, the
grid grows by one step beyond it, at most ``grow`` times. Then the best runs with the seeds that are reported; should
one of these diverge there, it is as if that learning rate had not been tried: the next best is looked for.
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
    grown = 0
    while True:
        if missing := _missing(grid, settings.tuning_seeds_used, ends):
            return missing
        loss = {lr: fmean(ends[lr, seed] for seed in settings.tuning_seeds_used) for lr in grid}
        left = [lr for lr in grid if all(math.isfinite(ends.get((lr, seed), 0.0)) for seed in settings.reported_seeds)]
        best = min(left or grid[:1], key=loss.__getitem__)
        further = beyond(grid, best)
        if further is None or grown == settings.grow:
            return _missing([best], settings.reported_seeds, ends) if math.isfinite(loss[best]) else []
        grid, grown = sorted([*grid, further]), grown + 1


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
