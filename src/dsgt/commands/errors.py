"""What went wrong, for a person: one sentence instead of a traceback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape


def tell(console: Console, error: object) -> None:
    console.print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)


@contextmanager
def plain_errors(
    console: Console, *also: type[Exception], kept: Callable[[], Path | None] = lambda: None
) -> Iterator[None]:
    """What a person did wrong, or the machine cannot do, ends a command with a sentence and the code 2.

    ``kept`` says where the work that was asked for is kept as far as it is finished, if anything of it is.
    """
    kinds: tuple[type[Exception], ...] = (ValueError, OSError, *also)
    try:
        yield
    except kinds as error:
        tell(console, error)
        if (where := kept()) is not None:
            _say(console, f"What is finished is in {where}; give the command again.")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as interrupt:
        where = kept()
        go_on = f" What is finished is in {where}: give the command again to go on." if where is not None else ""
        _say(console, f"Stopped.{go_on}")
        raise typer.Exit(130) from interrupt


def check_seed(seed: int) -> None:
    if seed < 0:
        raise ValueError(f"seed is {seed}; seeds are whole numbers from 0 on")


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
