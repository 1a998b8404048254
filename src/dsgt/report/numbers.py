"""Numbers for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

DIGITS = 5
"""More cannot be seen in a figure."""


def rounded(value: Any) -> float | None:
    """A number as JSON can hold it: a few digits, None where it is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")


def column(values: Iterable[Any]) -> list[float | None]:
    return [rounded(value) for value in values]
