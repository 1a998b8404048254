"""How far a command is: bars in a terminal; where nobody watches, now and then a line."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from dsgt.run import Spent

SECONDS_A_LINE = 5.0
"""Between two lines, where the output is a file."""


class Board:
    """``shown=False`` says nothing: of many processes of one job, one speaks."""

    def __init__(self, console: Console, *, shown: bool = True) -> None:
        self.console, self.shown = console, shown
        self.live = shown and console.is_terminal
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),  # names are not markup, and have no emoji codes
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[what]}", markup=False),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not self.live,
        )
        self.bars: dict[Hashable, TaskID] = {}
        self.said = time.monotonic()

    def __enter__(self) -> Board:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def bar(self, of: Hashable, text: str, done: float, total: float, what: str = "") -> None:
        """So much of it is done; it gets a bar of its own when it is first heard of."""
        if of not in self.bars:
            self.bars[of] = self.progress.add_task(text, total=total, what=what)
        self.progress.update(self.bars[of], description=text, completed=done, total=total, what=what)

    def speed(self, of: Hashable) -> float | None:
        """What is done of it in a second, once that is known."""
        known = of in self.bars
        return self.progress.tasks[self.progress.task_ids.index(self.bars[of])].speed if known else None

    def remove(self, of: Hashable) -> None:
        if of in self.bars:
            self.progress.remove_task(self.bars.pop(of))

    def line(self, text: str, *, last: bool = False) -> None:
        """For a file: not more often than somebody wants to read, but the last one always."""
        if self.shown and not self.live and (last or time.monotonic() - self.said > SECONDS_A_LINE):
            self.said = time.monotonic()
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)


MUCH = 0.15
"""A share of the time above which measuring is worth a word."""


def tell_spent(console: Console, spent: Sequence[Spent]) -> None:
    """How much of the runs' time measuring took, and what to do about it."""
    if not spent:
        return
    share = Spent(sum(s.training for s in spent), sum(s.measuring for s in spent)).share
    less = "; --evaluations, --eval-samples or --no-node-accuracy make it less" if share > MUCH else ""
    console.print(f"Measuring took {share:.0%} of the time of the runs{less}.", highlight=False, soft_wrap=True)
