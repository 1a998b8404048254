"""``dsgt compare``: methods side by side, and ``dsgt methods``: which there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dsgt import topologies
from dsgt.algorithms import ALGORITHMS
from dsgt.commands.progress import Board
from dsgt.commands.tables import costs_table, notes, results_table
from dsgt.comparison import Comparison, Settings, compare, events, read_settings
from dsgt.comparison.grid import FINISHED

console = Console()
EXPERIMENT, TUNING, CLOCK, OUTPUT = "The experiment", "Learning rates and seeds", "The virtual clock", "What is written"
EPILOG = (
    "Examples:  dsgt compare dsgt dpsgd d2 sgd  |  dsgt compare dsgt sgp --graph directed_ring --lr 0.1 --seeds 1  |  "
    "dsgt compare dsgt d2 --data cifar10 --data-dir DIR --model lenet --batch 1024 --partition equal  |  "
    "dsgt compare --config runs/compare/settings.toml"
)


def _names(known: Any) -> Any:
    """For a shell's completion."""
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


def compare_command(
    methods: Annotated[
        list[str] | None,
        typer.Argument(help=f"Which methods: {', '.join(ALGORITHMS)}.", autocompletion=_names(ALGORITHMS)),
    ] = None,
    data: Annotated[str | None, typer.Option(help="digits (embedded) or cifar10.", rich_help_panel=EXPERIMENT)] = None,
    model: Annotated[str | None, typer.Option(help="logistic or lenet.", rich_help_panel=EXPERIMENT)] = None,
    nodes: Annotated[int | None, typer.Option(help="How many nodes.", rich_help_panel=EXPERIMENT)] = None,
    partition: Annotated[
        str | None,
        typer.Option(
            help="Who holds what: equal, dirichlet:ALPHA (label skew; 0.1 is strong) or labels:COUNT.",
            rich_help_panel=EXPERIMENT,
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            help=f"A network file, or one of: {', '.join(topologies.GRAPHS)}.",
            autocompletion=_names(topologies.GRAPHS),
            rich_help_panel=EXPERIMENT,
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help=f"One of: {', '.join(topologies.WEIGHTS)}. A method that may not use them gets the nearest it may.",
            autocompletion=_names(topologies.WEIGHTS),
            rich_help_panel=EXPERIMENT,
        ),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="How often all samples are looked at.", rich_help_panel=EXPERIMENT)
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Samples a round, all nodes together.", rich_help_panel=EXPERIMENT)
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where CIFAR-10 is; or set DSGT_DATA.", rich_help_panel=EXPERIMENT)
    ] = None,
    lr: Annotated[
        list[float] | None,
        typer.Option(
            help="A learning rate to try; may be repeated. Without it, the paper's grid.", rich_help_panel=TUNING
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Repetitions with other shards and batches.", rich_help_panel=TUNING)
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option(help="How often a run is measured.", rich_help_panel=TUNING)
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            help="A training loss: how long does each method take to it? Without it, one that all reach.",
            rich_help_panel=TUNING,
        ),
    ] = None,
    compute: Annotated[
        float | None, typer.Option(help="Seconds a node needs for one sample's gradient.", rich_help_panel=CLOCK)
    ] = None,
    latency: Annotated[float | None, typer.Option(help="Seconds a message travels.", rich_help_panel=CLOCK)] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Bytes a second over one link.", rich_help_panel=CLOCK)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with any of these settings; flags win.", rich_help_panel=OUTPUT)
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Where settings, rows, figures and the report go.", rich_help_panel=OUTPUT)
    ] = Path("runs/compare"),
    workers: Annotated[int, typer.Option(help="Runs at a time.", min=1, rich_help_panel=OUTPUT)] = 2,
    resume: Annotated[
        bool,
        typer.Option(help="Use the runs that --out has already, or do everything again.", rich_help_panel=OUTPUT),
    ] = True,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard events.", rich_help_panel=OUTPUT)
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
        settings = Settings.of((read_settings(config) if config else {}) | flags)
        if tensorboard:
            events.check()
        with Board(console) as board:
            found = compare(
                settings, workers=workers, folder=out, resume=resume, watch=board.running, finished=board.finished
            )
        _show(found)
        page = found.save(out)
        if tensorboard:
            events.write(found, out / "tensorboard")
    console.print(f"The report is {page}; numbers and figures are beside it.", highlight=False, soft_wrap=True)


def methods_command() -> None:
    """List the methods: what they send, what they need of the weights, whether they are exact."""
    table = Table("method", "sends", "exact on uneven data", "needs")
    for name, method in ALGORITHMS.items():
        table.add_row(name, str(method.sends), "yes" if method.exact else "no, O(lr)", str(method.needs))
    console.print(table)


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
    console.print(costs_table(found))
    for note in notes(found):
        console.print(note, highlight=False)
