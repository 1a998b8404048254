"""The command line: a list of commands, each in a file of ``commands``."""

from __future__ import annotations

import typer

from dsgt.commands import compare, methods, network, plan, reproduce, train

app = typer.Typer(help="Peer-to-peer training in PyTorch.", no_args_is_help=True, rich_markup_mode="markdown")
app.command("compare", epilog=compare.EPILOG)(compare.compare_command)
app.command("train", epilog=train.EPILOG)(train.train_command)
app.command("methods", epilog=methods.EPILOG)(methods.methods_command)
app.add_typer(network.app, name="network")
app.command("plan")(plan.plan)
app.command("reproduce", epilog=reproduce.EPILOG)(reproduce.reproduce)
