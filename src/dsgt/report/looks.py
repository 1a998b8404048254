"""How methods look: one rule for every page, so that a method that is green in its report is green elsewhere too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

COLOURS = 6
"""How many the style sheet has; methods beyond that repeat them with another dash."""
DASHES = ("", "3 3", "9 4 3 4", "16 6", "16 4 3 4")
"""Of the first colours, the same again, and so on; as SVG writes them, so that a key has the dashes of its line."""
REFERENCE = "9 5"


def looks(references: Iterable[bool]) -> list[dict[str, Any]]:
    """For every method, whether it is the centralized reference or not: that is the colour of ink, and dashed; the
    others have the colours in their order."""
    found: list[dict[str, Any]] = []
    used = 0
    for reference in references:
        found.append({"look": "reference", "colour": "ink", "dash": REFERENCE} if reference else _rival(used))
        used += not reference
    return found


def _rival(number: int) -> dict[str, Any]:
    dash = DASHES[number // COLOURS % len(DASHES)]
    return {"look": number, "colour": str(number % COLOURS), "dash": dash}
