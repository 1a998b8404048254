"""How far something is, below the cell of a notebook that started it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from html import escape
from typing import Any

SECONDS = 0.2
"""Between two pictures of it."""


@dataclass(frozen=True)
class _Bar:
    done: float
    total: float
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<progress value="{self.done:g}" max="{self.total:g}"></progress> {escape(self.text)}'


class Progress:
    """One line that is written over; it appears with the first news."""

    def __init__(self, display: Any) -> None:
        self._display, self._handle, self._shown = display, None, 0.0

    def show(self, done: float, total: float, text: str) -> None:
        """So much of it is done. The last is always shown."""
        now = time.monotonic()
        if done < total and now - self._shown < SECONDS:
            return
        self._shown, bar = now, _Bar(done, total, text)
        if self._handle is None:
            self._handle = self._display(bar, display_id=True)
        else:
            self._handle.update(bar)


def progress() -> Progress | None:
    """None where no notebook runs this: a script says nothing unless it asks."""
    found = sys.modules.get("IPython")
    shell = None if found is None else found.get_ipython()
    if found is None or getattr(shell, "kernel", None) is None:
        return None
    return Progress(found.display.display)
