"""``dsgt methods``: which methods there are, and ``dsgt methods NAME``: what one of them does."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from dsgt.algorithms import ALGORITHMS, ALIASES, COMPOSITIONS
from dsgt.algorithms.named import in_python, label_among, oracle
from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.asynchronous.named import EVERY, label, method
from dsgt.commands import terminal
from dsgt.commands.completion import starting
from dsgt.commands.errors import plain_errors
from dsgt.core import Algorithm, Oracle, parameters, without_oracle
from dsgt.oracles import ORACLES
from dsgt.text import vectors

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = terminal.console()
EPILOG = (
    "Examples:\n\n- `dsgt methods dsgt` shows its equation, its guarantee and who published it\n"
    "- `dsgt methods saga` an oracle, and `dsgt methods extra+saga:q=20` a method that asks it"
)


@app.command(epilog=EPILOG)
def methods_command(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Which method or oracle; all of them in tables by default.",
            autocompletion=starting([*EVERY, *ALIASES, *ORACLES]),
        ),
    ] = None,
) -> None:
    """List the methods: what they send, what they need of the weights, whether they are exact; or describe one."""
    if name is None:
        console.print(_table())
        console.print(_oracles())
        return
    with plain_errors(console):
        if name.partition(":")[0] in ORACLES:
            _describe_oracle(oracle(name))
        else:
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


def _oracles() -> Table:
    table = Table(
        "oracle", "keeps", "what it is", title="in the place of gradients: METHOD+ORACLE", title_justify="left"
    )
    table.columns[0].no_wrap = True
    for name, kind in ORACLES.items():
        table.add_row(name, vectors(kind().keeps), _text(kind).partition(": ")[2].partition("\n\n")[0])
    return table


def _describe(algorithm: Algorithm[Any] | AsyncAlgorithm[Any]) -> None:
    """Its own text, then what it declares; then its oracle's, where one was added."""
    kind, when = type(algorithm), "a wake" if isinstance(algorithm, AsyncAlgorithm) else "a round"
    _say(f"[bold]{escape(label(algorithm))}[/], in Python [bold]{escape(in_python(algorithm))}[/]\n")
    _say(escape(_text(kind)))
    _say(
        f"\nSends {vectors(algorithm.sends)} {when}. Exact on uneven data: {_exact(kind)}. Needs of W: "
        f"{algorithm.needs}."
    )
    if isinstance(algorithm, AsyncAlgorithm):
        _parameters(algorithm)
        return
    if algorithm.asks.keeps:
        _say(f"A node keeps {vectors(algorithm.asks.keeps)} for its gradients.")
    plain = without_oracle(algorithm)
    _parameters(plain)
    if plain is not algorithm:
        _say(f"\n{escape(_text(type(algorithm.asks)))}")
        _parameters(algorithm.asks)


def _describe_oracle(made: Oracle[Any]) -> None:
    name = label_among(made, ORACLES) or ""
    _say(f"[bold]METHOD+{escape(name)}[/], in Python [bold]{escape(in_python(made))}[/]\n")
    _say(escape(_text(type(made))))
    _say(f"\nA node keeps {vectors(made.keeps)} for it.")
    _parameters(made)


def _parameters(made: Algorithm[Any] | AsyncAlgorithm[Any] | Oracle[Any]) -> None:
    if known := parameters(made):
        hints = Table("parameter", "type", "default", "meaning", title="parameters", title_justify="left")
        for f in known:
            hints.add_row(f.name, str(f.type), str(f.default), str(f.metadata.get("meaning", "")))
        console.print(hints)


def _text(kind: type) -> str:
    return (sys.modules[kind.__module__].__doc__ or "").strip()


def _say(text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _exact(kind: type[Algorithm[Any]] | type[AsyncAlgorithm[Any]]) -> str:
    return "yes" if kind.exact else "no, O(lr)"
