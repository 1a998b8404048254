"""``dsgt methods``: which methods there are, and ``dsgt methods NAME``: what one of them does."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dsgt.algorithms import ALGORITHMS, ALIASES, COMPOSITIONS
from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.asynchronous.named import label, method
from dsgt.commands.completion import starting
from dsgt.commands.errors import plain_errors
from dsgt.core import Algorithm, parameters

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = Console()
EPILOG = "Examples:\n\n- `dsgt methods dsgt` shows its equation, its guarantee and who published it"


@app.command(epilog=EPILOG)
def methods_command(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Which method; all of them in a table by default.",
            autocompletion=starting([*ALGORITHMS, *COMPOSITIONS, *ASYNCHRONOUS, *ALIASES]),
        ),
    ] = None,
) -> None:
    """List the methods: what they send, what they need of the weights, whether they are exact; or describe one."""
    if name is None:
        console.print(_table())
        return
    with plain_errors(console):
        _describe(method(name))


def _table() -> Table:
    table = Table("method", "sends", "exact on uneven data", "needs")
    table.columns[0].no_wrap = True
    for name, kind in (ALGORITHMS | COMPOSITIONS).items():
        table.add_row(name, f"{kind().sends:g}", _exact(kind), str(kind().needs))
    for name, nobody_waits in ASYNCHRONOUS.items():
        table.add_row(name, f"{nobody_waits.sends:g} a wake", _exact(nobody_waits), str(nobody_waits.needs))
    for name, other in ALIASES.items():
        table.add_row(name, "", "", f"another name of {other}")
    return table


def _describe(algorithm: Algorithm[Any] | AsyncAlgorithm[Any]) -> None:
    """Its own text, then what it declares."""
    kind, when = type(algorithm), "a wake" if isinstance(algorithm, AsyncAlgorithm) else "a round"
    names = f"[bold]{escape(label(algorithm))}[/], in Python [bold]dsgt.{escape(repr(algorithm))}[/]\n"
    console.print(names, highlight=False, soft_wrap=True)
    console.print(escape((sys.modules[kind.__module__].__doc__ or "").strip()), highlight=False, soft_wrap=True)
    console.print(
        f"\nSends {algorithm.sends:g} m-vector{'s' * (algorithm.sends != 1)} {when}. Exact on uneven data: "
        f"{_exact(kind)}. Needs of W: {algorithm.needs}.",
        highlight=False,
        soft_wrap=True,
    )
    if known := parameters(kind):
        hints = Table("parameter", "type", "default", "meaning", title="parameters", title_justify="left")
        for f in known:
            hints.add_row(f.name, str(f.type), str(f.default), str(f.metadata.get("meaning", "")))
        console.print(hints)


def _exact(kind: type[Algorithm[Any]] | type[AsyncAlgorithm[Any]]) -> str:
    return "yes" if kind.exact else "no, O(lr)"
