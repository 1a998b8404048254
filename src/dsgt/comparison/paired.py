"""Two methods on the same seeds: what their losses allow to say about the difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from scipy.special import stdtrit

from dsgt.comparison.method_runs import MethodRuns

LEVEL = 0.95
"""That all intervals of a comparison hold together."""
EQUAL = 0.01
"""Losses that differ by less than this share of theirs are called equal."""
ENOUGH = 3
"""Fewer seeds have no spread worth the name."""

Judgement = Literal["lower", "higher", "equal", "too few seeds"]


@dataclass(frozen=True)
class Difference:
    """How much higher the loss of a is than that of b, as a share of the latter: -0.2 is 20 % lower."""

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


def difference(a: MethodRuns, b: MethodRuns, comparisons: int) -> Difference:
    """A paired t interval for the mean logarithm of the ratio of the losses, seed by seed.

    Its level is LEVEL for all ``comparisons`` together (Bonferroni). With less than ENOUGH seeds it is infinite.
    """
    pairs = list(zip(a.losses, b.losses, strict=True))
    if not all(x > 0 and y > 0 for x, y in pairs):  # no ratio; then as shares of the larger mean
        scale = max(abs(fmean(a.losses)), abs(fmean(b.losses))) or 1.0
        return Difference(*_interval([(x - y) / scale for x, y in pairs], comparisons))
    return Difference(*(_share(v) for v in _interval([math.log(x / y) for x, y in pairs], comparisons)))


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
