"""``dsgt compare``: methods side by side, and ``dsgt methods``: which there are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from dsgt import topologies
from dsgt.algorithms import ALGORITHMS
from dsgt.comparison import PAPER_GRID, Comparison, Job, Settings, compare

console = Console()


def compare_command(
    methods: Annotated[list[str], typer.Argument(help=f"Which methods: {', '.join(ALGORITHMS)}.")],
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 12,
    partition: Annotated[
        str, typer.Option(help="Who holds what: equal, dirichlet:ALPHA (label skew) or labels:COUNT.")
    ] = "dirichlet:0.3",
    graph: Annotated[str, typer.Option(help=f"A network file, or one of: {', '.join(topologies.GRAPHS)}.")] = "random",
    weights: Annotated[str, typer.Option(help=f"One of: {', '.join(topologies.WEIGHTS)}.")] = "fdla",
    epochs: Annotated[float, typer.Option(help="How often all samples are looked at.")] = 20,
    batch: Annotated[int, typer.Option(help="Samples a round, all nodes together.")] = 128,
    lr: Annotated[list[float] | None, typer.Option(help="A learning rate to try; may be repeated.")] = None,
    seeds: Annotated[int, typer.Option(help="Repetitions with other shards and batches.")] = 3,
    out: Annotated[Path, typer.Option(help="Where settings, rows and figures go.")] = Path("runs/compare"),
    workers: Annotated[int, typer.Option(help="Runs at a time.")] = 2,
    resume: Annotated[bool, typer.Option("--resume", help="Do not repeat runs that --out has already.")] = False,
) -> None:
    """Compare methods on logistic regression over the embedded digits, each at its best learning rate.

    Every method is run at every learning rate with every seed; the one with the lowest final training loss of the
    mean model counts. Without --lr the paper's grid is tried.
    """
    try:
        lrs = tuple(lr or PAPER_GRID)
        settings = Settings(tuple(methods), nodes, partition, graph, weights, epochs, batch, lrs, seeds)
        out.mkdir(parents=True, exist_ok=True)
        with _progress() as progress:
            task = progress.add_task("starting", total=None)

            def show(done: int, total: int, job: Job) -> None:
                progress.update(task, completed=done, total=total, description=f"{job.method} at lr {job.lr:g}")

            found = compare(settings, workers=workers, progress=show, folder=out, resume=resume)
    except (ValueError, OSError) as error:
        console.print(f"[red]error:[/] {error}", highlight=False, markup=True)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as interrupt:
        console.print(f"Stopped; what is finished is in {out}: give the command again with --resume.", highlight=False)
        raise typer.Exit(130) from interrupt
    console.print(_table(found))
    for line in found.table():
        if line["weights"] not in (weights, "all", "push", "file"):
            console.print(f"{line['method']} may not use the weights asked for: it ran with {line['weights']}.")
    edge = [line["method"] for line in found.table() if line["lr"] == max(lrs) and len(lrs) > 1]
    if edge:
        console.print(f"Best at the largest learning rate tried, so a larger one may be better: {', '.join(edge)}.")
    console.print(f"The picture is {found.save(out)}, the numbers are beside it.", highlight=False)


def methods_command() -> None:
    """List the methods: what they send, what they need of the weights, whether they are exact."""
    table = Table("method", "sends", "exact on uneven data", "needs")
    for name, method in ALGORITHMS.items():
        table.add_row(name, str(method.sends), "yes" if method.exact else "no, O(lr)", str(method.needs))
    console.print(table)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)


def _table(found: Comparison) -> Table:
    s = found.settings
    table = Table(
        title=f"digits over {s.nodes} nodes, {s.partition}, {s.graph} graph, {s.epochs:g} epochs, {s.seeds} seeds",
        box=box.SIMPLE_HEAD,
        caption="mean, worst: test accuracy of the mean model and of the worst node; apart: from their mean",
    )
    for heading in ("method", "weights", "lr", "loss", "mean", "worst", "apart", "MB"):
        table.add_column(heading, justify="left" if heading in ("method", "weights") else "right", no_wrap=True)
    for line in found.table():
        if math.isinf(line["loss"]):
            table.add_row(line["method"], line["weights"], "diverged at every lr")
            continue
        table.add_row(
            line["method"],
            line["weights"],
            f"{line['lr']:g}",
            f"{line['loss']:.3f} ±{line['spread']:.3f}",
            f"{line['accuracy']:.1%}",
            f"{line['node_accuracy_min']:.1%}",
            f"{line['consensus']:.2g}",
            f"{line['megabytes']:.0f}",
        )
    return table
