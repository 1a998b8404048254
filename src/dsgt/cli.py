"""The command line: a list of commands, each in a file of ``commands`` that is loaded when the command is called."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dsgt._version import __version__
from dsgt.extras import how_to_install
from dsgt.late import load

COMMANDS = {
    "compare": "Compare methods on the same data, network and budget, each at its best learning rate.",
    "report": "Put many comparisons on one page: what each found, and any two of them side by side.",
    "train": "Train with one method: every process of torchrun or mpiexec is a node, and talks to its neighbours only.",
    "export": "Write the mean model of the newest checkpoint to a file, as an ordinary state_dict.",
    "methods": "List the methods: what they send, what they need of the weights, whether they are exact; "
    "or describe one.",
    "replay": "Do a recorded asynchronous run again in one process, and compare every model, bit for bit.",
    "peers": "Make the list of a job's nodes, with their keys.",
    "network": "Describe, compare, draw and design networks.",
    "plan": "What the network costs, which learning rate to use, when the network stops mattering, what speedup to "
    "expect.",
    "reproduce": "Measure the paper's figures and claims again, and say what was found.",
}
"""Each with the first line of its own help, so that the list of commands needs none of them."""


class Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """A package that is missing is named in one line, with the command that installs it."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if not (said := how_to_install(error.name or "")):
                raise
            typer.echo(f"error: {said}", err=True)
            raise typer.Exit(2) from None


def _late(name: str) -> type[TyperCommand]:
    """A command that knows its name and one line of help; whatever more is asked of it, its file answers."""

    class Late(TyperCommand):
        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            module = load(f"dsgt.commands.{name}")
            return typer.main.get_command(module.app).make_context(info_name, args, parent, **extra)

    return Late


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dsgt {__version__}")
        raise typer.Exit


app = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def dsgt(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Peer-to-peer training in PyTorch."""


for _name, _line in COMMANDS.items():
    app.command(_name, help=_line, cls=_late(_name))(lambda: None)
