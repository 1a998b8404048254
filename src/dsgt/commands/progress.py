"""How far a comparison is: a bar for all runs and one for each that is running; lines where nobody watches."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from dsgt.comparison import Job, News
from dsgt.comparison.job import Row

SECONDS_A_LINE = 5.0
"""Between two lines, where the output is a file."""


class Board:
    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = console.is_terminal
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[what]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not self.live,
        )
        self.overall = self.progress.add_task("starting", total=1, what="runs")
        self.tasks: dict[Job, TaskID] = {}
        self.said = time.monotonic()

    def __enter__(self) -> Board:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def running(self, news: News) -> None:
        """A run has been measured."""
        if news.job not in self.tasks:
            self.tasks[news.job] = self.progress.add_task(str(news.job), total=news.rounds, what="")
        task = self.tasks[news.job]
        speed = self.progress.tasks[self.progress.task_ids.index(task)].speed
        rate = f", {speed:.0f} rounds/s" if speed else ""
        self.progress.update(task, completed=news.round, what=f"loss {news.loss:.3g}{rate}")

    def finished(self, done: int, total: int, job: Job, rows: list[Row]) -> None:
        self.progress.update(self.overall, description="all runs", completed=done, total=total)
        if job in self.tasks:
            self.progress.remove_task(self.tasks.pop(job))
        if not self.live and (done == total or time.monotonic() - self.said > SECONDS_A_LINE):
            self.said = time.monotonic()
            self.console.print(f"{done} of {total} runs done, the last: {job}, loss {rows[-1]['loss']:.4g}")
