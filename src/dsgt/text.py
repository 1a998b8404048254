"""Words for people: what to say of a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], what: str) -> str:
    """The message for an unknown name."""
    known = list(known)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    guess = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no {what} called {name!r}{guess} Known: {', '.join(known)}"
