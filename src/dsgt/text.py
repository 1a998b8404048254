"""Names and numbers in sentences for people."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], what: str) -> str:
    """The message for an unknown name."""
    known = list(known)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    guess = f"; did you mean {close[0]!r}?" if close else "."
    return f"there is no {what} called {name!r}{guess} Known: {', '.join(known)}"


def listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def short(value: float, digits: int = 4) -> str:
    """A number in a sentence: four digits, no exponent where people would not write one."""
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "infinite"
    size = abs(value)
    if size >= 1000 and size < 1e7:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def with_spread(mean: float, spread: float) -> str:
    """``0.1823 ± 0.0041``: two digits of the spread, and the mean as far as they reach."""
    if math.isnan(spread) or spread == 0:  # of one seed, or the same for all
        return short(mean)
    if not math.isfinite(spread) or mean == 0 or not 1e-4 <= abs(mean) < 1e5:
        return f"{short(mean)} ± {short(spread, 2)}"
    decimals = max(0, min(6, 1 - math.floor(math.log10(spread))))
    return f"{mean:.{decimals}f} ± {spread:.{decimals}f}"


def percent(share: float, spread: float = math.nan) -> str:
    """``60.7 %``, or ``60.7 ± 0.7 %``."""
    if not math.isfinite(share):
        return "none"
    return f"{100 * share:.1f} %" if math.isnan(spread) else f"{100 * share:.1f} ± {100 * spread:.1f} %"


def vectors(count: float) -> str:
    """How many m-vectors a method sends; no number where a network decides it."""
    return (
        "as many m-vectors as the network asks for" if math.isnan(count) else f"{count:g} m-vector{'s' * (count != 1)}"
    )
