"""``dsgt peers``: who takes part in a job that is started by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from dsgt.commands import terminal
from dsgt.commands.errors import plain_errors
from dsgt.networks.roster import HERE, create

app = typer.Typer(help="Make the list of a job's nodes, with their keys.", add_completion=False, no_args_is_help=True)
console = terminal.console()


@app.callback()
def peers() -> None:
    """Make the list of a job's nodes, with their keys."""


@app.command("init")
def init(
    nodes: Annotated[int, typer.Argument(help="How many nodes.", min=1)],
    out: Annotated[Path, typer.Option(help="The folder for peers.toml and the secrets.")],
    host: Annotated[
        list[str] | None,
        typer.Option(help=f"Where a node is reached; once for all, or once for each. Default: {HERE}."),
    ] = None,
    port: Annotated[int, typer.Option(help="The first port; nodes of one host get one after the other.")] = 7000,
) -> None:
    """Write peers.toml, the same file for every machine, and a secret for each node, which nobody else may read."""
    hosts = host or [HERE]
    with plain_errors(console):
        if len(hosts) not in (1, nodes):
            raise ValueError(
                f"{len(hosts)} hosts were given for {nodes} nodes; give --host once, or once for each node"
            )
        used: Counter[str] = Counter()
        addresses = []
        for name in hosts * (nodes if len(hosts) == 1 else 1):
            addresses.append(f"tcp://{name}:{port + used[name]}")
            used[name] += 1
        path = create(out, addresses)
    _say(f"{path} lists {nodes} nodes: copy it to every machine.")
    _say(f"{out / 'node-0.secret'} and its like are secrets: move each to the machine of its node, over a safe way.")
    _say(f"Start node i with: dsgt train asy-sonata --peers {path} --secret {out}/node-i.secret")


def _say(text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
