"""Two methods on the same seeds: what their numbers allow to say about the difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from scipy.special import stdtrit

from dsgt.comparison.method_runs import MethodRuns

LEVEL = 0.95
"""That all intervals of a comparison hold together, for each of its metrics."""
EQUAL = 0.01
"""Losses that differ by less than this share of theirs are called equal."""
ENOUGH = 3
"""Fewer seeds have no spread worth the name."""

Judgement = Literal["lower", "higher", "equal", "too few seeds"]


@dataclass(frozen=True)
class Difference:
    """How much higher the numbers of a are than those of b: losses as a share of the latter, -0.2 being 20 % lower."""

    mean: float
    low: float
    high: float

    @property
    def judgement(self) -> Judgement:
        if self.high < 0 and not self.equal:
            return "lower"
        if self.low > 0 and not self.equal:
            return "higher"
        return "equal" if self.equal else "too few seeds"

    @property
    def equal(self) -> bool:
        return self.low >= -EQUAL and self.high <= EQUAL


def difference(a: Sequence[float], b: Sequence[float], comparisons: int, *, shares: bool = True) -> Difference:
    """A paired t interval, seed by seed: for the mean logarithm of the ratio, or, with ``shares=False``, as for
    accuracies, for the mean of a - b.

    Its level is LEVEL for all ``comparisons`` together (Bonferroni). With less than ENOUGH seeds it is infinite.
    """
    pairs = list(zip(a, b, strict=True))
    if shares and all(x > 0 and y > 0 for x, y in pairs):
        return Difference(*(_share(v) for v in _interval([math.log(x / y) for x, y in pairs], comparisons)))
    scale = (max(abs(fmean(a)), abs(fmean(b))) or 1.0) if shares else 1.0  # no ratio; then as shares of the larger mean
    return Difference(*_interval([(x - y) / scale for x, y in pairs], comparisons))


def _interval(values: Sequence[float], comparisons: int) -> tuple[float, float, float]:
    middle, n = fmean(values), len(values)
    if n < ENOUGH:
        return middle, -math.inf, math.inf
    width = float(stdtrit(n - 1, 1 - (1 - LEVEL) / 2 / comparisons)) * stdev(values) / math.sqrt(n)
    return middle, middle - width, middle + width


def _share(log: float) -> float:
    return math.expm1(min(log, 700.0))


def comparisons(lines: Sequence[MethodRuns]) -> int:
    """Every method may turn out to be the best, so every pair counts."""
    finished = sum(line.converged for line in lines)
    return max(1, finished * (finished - 1) // 2)


def judged(lines: Sequence[MethodRuns]) -> bool:
    """Whether the methods may be ranked at all: enough seeds, and no best learning rate at the edge of its grid."""
    finished = [line for line in lines if line.converged]
    return all(len(line.losses) >= ENOUGH and not line.edge for line in finished)


def leaders(lines: Sequence[MethodRuns], values: Sequence[Sequence[float]], *, largest: bool = False) -> frozenset[int]:
    """The places of the methods that the seeds do not tell from the best one, where they tell any other from it.

    ``values`` are those of every line's seeds, none for who is not ranked; accuracies if the ``largest`` is the best.
    """
    known = {k: of for k, (line, of) in enumerate(zip(lines, values, strict=True)) if line.ranked and of}
    if len(known) < 2 or not judged(lines):
        return frozenset()
    best = (max if largest else min)(known, key=lambda k: fmean(known[k]))
    found = {k: difference(known[k], known[best], comparisons(lines), shares=not largest) for k in known}
    behind = {k for k, d in found.items() if (d.high < 0 if largest else d.low > 0)}
    return frozenset(known.keys() - behind) if behind else frozenset()
