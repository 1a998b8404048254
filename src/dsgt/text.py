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
    if not math.isfinite(spread) or spread == 0 or mean == 0 or not 1e-4 <= abs(mean) < 1e5:
        return short(mean) if spread == 0 else f"{short(mean)} ± {short(spread, 2)}"
    decimals = max(0, min(6, 1 - math.floor(math.log10(spread))))
    return f"{mean:.{decimals}f} ± {spread:.{decimals}f}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %" if math.isfinite(share) else "none"


def vectors(count: float) -> str:
    """How many m-vectors a method sends; no number where a network decides it."""
    return (
        "as many m-vectors as the network asks for" if math.isnan(count) else f"{count:g} m-vector{'s' * (count != 1)}"
    )
