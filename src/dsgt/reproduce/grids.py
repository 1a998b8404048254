"""Grids of learning rates that grow until the best one lies inside, by one rule for everybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

K = TypeVar("K")
Grids: TypeAlias = dict[K, set[float]]
"""The learning rates of each method, or of each method on each network."""


def grown(grids: Grids[K], ladder: Sequence[float], best_of: Callable[[Grids[K]], dict[K, float]]) -> Grids[K]:
    """``best_of`` runs the grids. Where the best is the largest or the smallest that was tried, the next one of the
    ladder is tried too."""
    while True:
        best = best_of(grids)
        wider = {key: tried | beyond(ladder, tried, best[key]) for key, tried in grids.items()}
        if wider == grids:
            return grids
        grids = wider


def beyond(ladder: Sequence[float], tried: set[float], best: float) -> set[float]:
    """The next learning rate of the ladder where the best is at an edge of what was tried, else nothing."""
    above, below = [x for x in ladder if x > max(tried)], [x for x in ladder if x < min(tried)]
    return {*(above[:1] if best == max(tried) else []), *(below[-1:] if best == min(tried) else [])}
