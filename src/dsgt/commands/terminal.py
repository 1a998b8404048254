"""Where commands write: one kind of console for all of them."""

from __future__ import annotations

from rich.console import Console


def console(*, force_terminal: bool | None = None) -> Console:
    """Without emoji codes: ``module:rocket:beta=0.3`` is a method's name, and stays one."""
    return Console(emoji=False, force_terminal=force_terminal)
