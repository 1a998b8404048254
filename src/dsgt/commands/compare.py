"""``dsgt compare``: methods side by side."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dsgt import report
from dsgt.commands import options
from dsgt.commands.errors import plain_errors
from dsgt.commands.progress import Board
from dsgt.commands.tables import costs_table, results_table
from dsgt.comparison import Comparison, Job, News, Settings, compare, events, read_settings
from dsgt.comparison.measured import Row
from dsgt.comparison.method_runs import reached_at_once
from dsgt.comparison.notes import notes
from dsgt.comparison.result import SELECTION
from dsgt.extras import require
from dsgt.report.verdict import verdict

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = Console()
EPILOG = (
    "Examples:\n\n- `dsgt compare dsgt dpsgd d2 sgd`\n- `dsgt compare dsgt d2 --graph ring --lr 0.1 --seeds 1`\n"
    "- `dsgt compare dsgt d2 --data cifar10 --data-dir DIR --model lenet --batch 1024 --partition equal`\n"
    "- `dsgt compare dsgt mymethods:Mine --model mymodels:net --data mydata:load` takes your own\n"
    "- `dsgt compare dsgt d2 --data table.csv:target=COLUMN`\n- `dsgt compare --config runs/compare/settings.toml`"
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
    grow: options.Grow = None,
    tuning_seeds: options.TuningSeeds = None,
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

    Every method's learning rate is the one with the lowest final training loss of the mean model on seeds of their own;
    the grid grows while the best is at an end of it. Then it is run with the seeds that are reported. A run that
    diverges is stopped and shown as such. The command can be interrupted: given again, it goes on where it was.
    """
    given = {
        "methods": methods, "data": data, "model": model, "nodes": nodes, "partition": partition, "graph": graph,
        "weights": weights, "epochs": epochs, "batch": batch, "data_dir": data_dir, "lrs": lr, "grow": grow,
        "tuning_seeds": tuning_seeds, "seeds": seeds,
        "evaluations": evaluations, "target": target, "compute": compute, "latency": latency, "bandwidth": bandwidth,
    }  # fmt: skip
    flags = {key: value for key, value in given.items() if value is not None and value != []}
    kept: list[Path] = []  # empty until all that was asked for is known to be possible
    with plain_errors(console, kept=lambda: next(iter(kept), None)):
        require("matplotlib", "pandas", "jinja2", "plotly", *(["tensorboard"] if tensorboard else []))  # in the end
        settings = Settings.of((read_settings(config) if config else {}) | flags)
        with Board(console) as board:
            found = compare(
                settings,
                workers=workers,
                folder=out,
                resume=resume,
                checkpoint_every=checkpoint_every,
                watch=partial(_running, board, kept, out),
                finished=partial(_finished, board, kept, out),
            )
        _show(found)
        page = report.save(found, out)
        if tensorboard:
            events.write(found, out / "tensorboard")
    console.print(f"The report is {page}; numbers and figures are beside it.", highlight=False, soft_wrap=True)


def _running(board: Board, kept: list[Path], out: Path, news: News) -> None:
    """A run has been measured."""
    kept[:] = [out]
    speed = board.speed(news.job)
    rate = f", {speed:.0f} rounds/s" if speed else ""
    board.bar(news.job, str(news.job), news.round, news.rounds, f"loss {news.loss:.3g}{rate}")


def _finished(board: Board, kept: list[Path], out: Path, done: int, total: int, job: Job, rows: list[Row]) -> None:
    kept[:] = [out]
    board.remove(job)
    board.bar("all runs", "all runs", done, total)
    board.line(f"{done} of {total} runs done, the last: {job}, loss {rows[-1]['loss']:.4g}", last=done == total)


def _show(found: Comparison) -> None:
    """The tables, what they say, and what to know beside them."""
    console.print(results_table(found))
    if found.target is not None and not reached_at_once(found.lines, found.target):
        console.print(costs_table(found, found.target))
    for sentence in (*verdict(found.lines, found.target), SELECTION, *notes(found)):
        console.print(sentence, highlight=False, markup=False)
