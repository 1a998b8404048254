"""``dsgt compare``: methods side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dsgt.commands import options
from dsgt.commands.progress import Board
from dsgt.commands.tables import costs_table, notes, results_table
from dsgt.comparison import Comparison, Settings, compare, events, read_settings
from dsgt.comparison.grid import FINISHED
from dsgt.extras import require

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = Console()
EPILOG = (
    "Examples:\n\n- `dsgt compare dsgt dpsgd d2 sgd`\n- `dsgt compare dsgt d2 --graph ring --lr 0.1 --seeds 1`\n"
    "- `dsgt compare dsgt d2 --data cifar10 --data-dir DIR --model lenet --batch 1024 --partition equal`\n"
    "- `dsgt compare --config runs/compare/settings.toml`"
)


@app.command(epilog=EPILOG)
def compare_command(
    methods: options.Methods = None,
    data: options.Data = None,
    model: options.Model = None,
    nodes: options.Nodes = None,
    partition: options.Partition = None,
    graph: options.Graph = None,
    weights: options.Weights = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    data_dir: options.DataDir = None,
    lr: options.LearningRates = None,
    seeds: options.Seeds = None,
    evaluations: options.Evaluations = None,
    target: options.Target = None,
    compute: options.Compute = None,
    latency: options.Latency = None,
    bandwidth: options.Bandwidth = None,
    config: options.Config = None,
    out: Annotated[
        Path, typer.Option(help="Where settings, rows, figures and the report go.", rich_help_panel=options.OUTPUT)
    ] = Path("runs/compare"),
    workers: Annotated[int, typer.Option(help="Runs at a time.", min=1, rich_help_panel=options.OUTPUT)] = 2,
    resume: Annotated[
        bool,
        typer.Option(help="Use the runs that --out has, or do all again.", rich_help_panel=options.OUTPUT),
    ] = True,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(help="Also save unfinished runs, every so many rounds.", min=1, rich_help_panel=options.OUTPUT),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard events.", rich_help_panel=options.OUTPUT)
    ] = False,
) -> None:
    """Compare methods on the same data, network and budget, each at its best learning rate.

    Every method is run at every learning rate with every seed; the one with the lowest final training loss of the
    mean model counts. A run that diverges is stopped and shown as such. The command can be interrupted: given again,
    it goes on where it was.
    """
    given = {
        "methods": methods, "data": data, "model": model, "nodes": nodes, "partition": partition, "graph": graph,
        "weights": weights, "epochs": epochs, "batch": batch, "data_dir": data_dir, "lrs": lr, "seeds": seeds,
        "evaluations": evaluations, "target": target, "compute": compute, "latency": latency, "bandwidth": bandwidth,
    }  # fmt: skip
    with _plain_errors(out):
        flags = {key: value for key, value in given.items() if value is not None and value != []}
        require("matplotlib", "pandas", "jinja2", "plotly")  # for the report, in the end
        settings = Settings.of((read_settings(config) if config else {}) | flags)
        if tensorboard:
            require("tensorboard")
        with Board(console) as board:
            found = compare(
                settings,
                workers=workers,
                folder=out,
                resume=resume,
                checkpoint_every=checkpoint_every,
                watch=board.running,
                finished=board.finished,
            )
        _show(found)
        page = found.save(out)
        if tensorboard:
            events.write(found, out / "tensorboard")
    console.print(f"The report is {page}; numbers and figures are beside it.", highlight=False, soft_wrap=True)


@contextmanager
def _plain_errors(out: Path) -> Iterator[None]:
    """What a person did wrong, or the machine cannot do, in one sentence; what is finished stays."""
    try:
        yield
    except (ValueError, OSError) as error:
        console.print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        if (out / FINISHED).is_file():
            console.print(f"What is finished is in {escape(str(out))}; give the command again.", highlight=False)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as interrupt:
        message = f"Stopped. What is finished is in {escape(str(out))}: give the command again to go on."
        console.print(message, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from interrupt


def _show(found: Comparison) -> None:
    console.print(results_table(found))
    if found.target is not None:
        console.print(costs_table(found))
    for note in notes(found):
        console.print(note, highlight=False)
