"""``dsgt compare``: methods side by side."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dsgt import comparison, report
from dsgt.commands import options, terminal
from dsgt.commands.errors import plain_errors
from dsgt.commands.progress import Board, tell_spent
from dsgt.commands.tables import costs_table, results_table, sweep_table
from dsgt.comparison import Comparison, Job, News, Point, Settings, Sweep, compare, events
from dsgt.comparison.measured import Row
from dsgt.comparison.method_runs import reached_at_once
from dsgt.comparison.notes import notes
from dsgt.comparison.result import check_axis
from dsgt.extras import require
from dsgt.report.verdict import verdict
from dsgt.run import Spent

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = terminal.console()
EPILOG = (
    "Examples:\n\n- `dsgt compare dsgt dpsgd d2 sgd`\n- `dsgt compare dsgt d2 --graph ring --lr 0.1 --seeds 1`\n"
    "- `dsgt compare dsgt d2 --data cifar10 --data-dir DIR --model lenet --batch 1024 --partition equal`\n"
    "- `dsgt compare dsgt mymethods:Mine --model mymodels:net --data mydata:load` takes your own\n"
    "- `dsgt compare dsgt d2 --data table.csv:target=COLUMN`\n- `dsgt compare dsgt dpsgd sgd --budget 20MB`\n"
    "- `dsgt compare dsgt d2 sgd --sweep nodes=4,8,16 --sweep partition=dirichlet:0.1,equal`\n"
    "- `dsgt compare --config runs/compare/settings.toml`"
)


@app.command(epilog=EPILOG)
def compare_command(
    methods: options.Methods = None,
    data: options.Data = None,
    model: options.Model = None,
    augment: options.Augment = None,
    statistics: options.Statistics = None,
    dtype: options.Dtype = None,
    nodes: options.Nodes = None,
    partition: options.Partition = None,
    graph: options.Graph = None,
    weights: options.Weights = None,
    epochs: options.Epochs = None,
    budget: options.Budget = None,
    seconds: options.Seconds = None,
    batch: options.Batch = None,
    data_dir: options.DataDir = None,
    weight_decay: options.WeightDecay = None,
    momentum: options.Momentum = None,
    schedule: options.Schedule = None,
    lr: options.LearningRates = None,
    grow: options.Grow = None,
    tuning_seeds: options.TuningSeeds = None,
    validation: options.Validation = None,
    seeds: options.Seeds = None,
    evaluations: options.Evaluations = None,
    tests: options.Tests = None,
    eval_samples: options.EvalSamples = None,
    node_accuracy: options.NodeAccuracy = None,
    target: options.Target = None,
    compute: options.Compute = None,
    latency: options.Latency = None,
    bandwidth: options.Bandwidth = None,
    stragglers: options.Stragglers = None,
    config: options.Config = None,
    out: Annotated[
        Path, typer.Option(help="Where settings, rows, figures and the report go.", rich_help_panel=options.OUTPUT)
    ] = Path("runs/compare"),
    sweep: options.Sweep = None,
    axis: options.Axis = None,
    figure_width: options.FigureWidth = None,
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

    Every method's learning rate is the one with the lowest final training loss of the mean model on seeds of their own,
    or with --validation the lowest loss on samples that are held out; the grid grows while the best is at an end of it.
    Then it is run with the seeds that are reported. A run that diverges is stopped and shown as such. The command can
    be interrupted: given again, it goes on where it was.
    """
    given = {
        "methods": methods, "data": data, "model": model, "nodes": nodes, "partition": partition, "graph": graph,
        "weights": weights, "epochs": epochs, "budget": budget, "batch": batch, "data_dir": data_dir,
        "lrs": lr, "grow": grow, "tuning_seeds": tuning_seeds, "validation": validation, "seeds": seeds,
        "evaluations": evaluations, "tests": tests, "target": target, "compute": compute, "latency": latency,
        "bandwidth": bandwidth, "stragglers": stragglers,
        "augment": augment, "statistics": statistics, "dtype": dtype, "weight_decay": weight_decay,
        "momentum": momentum, "schedule": schedule, "eval_samples": eval_samples, "node_accuracy": node_accuracy,
    }  # fmt: skip
    flags = {key: value for key, value in given.items() if value is not None and value != []}
    kept: list[Path] = []  # empty until all that was asked for is known to be possible
    with plain_errors(console, kept=lambda: next(iter(kept), None)):
        require("matplotlib", "pandas", "jinja2", "plotly", *(["tensorboard"] if tensorboard else []))  # in the end
        wide, over = options.inches(figure_width), options.swept(sweep or [])
        against = None if axis is None else axis.replace("-", "_")
        check_axis(against)
        if seconds is not None:
            if budget is not None:
                raise ValueError(f"--seconds {seconds:g} and --budget {budget} are given; give one of them")
            flags["budget"] = f"{seconds:g}s"
        told = {k: v for k, v in options.settled(config, flags).items() if k in flags or k not in over}

        def save(found: Comparison, folder: Path) -> Path:
            if tensorboard:
                events.write(found, folder / "tensorboard")
            return report.save(found, folder, figure_width=wide, against=against)

        spent: list[Spent] = []
        with Board(console) as board:
            how: dict[str, Any] = {
                "folder": out, "workers": workers, "resume": resume, "checkpoint_every": checkpoint_every,
                "watch": partial(_running, board, kept, out, spent), "finished": partial(_finished, board, kept, out),
            }  # fmt: skip
            found: Comparison | Sweep
            if over:
                found = comparison.sweep(
                    over, begin=partial(_next, board), done=lambda p, one: save(one, out / p.name), **how, **told
                )
            else:
                found = compare(Settings.of(told), **how)
        if isinstance(found, Sweep):
            found.save(out, figure_width=wide)
            page = report.index([out / point.name for point in found.found], out / "index.html")
            _show_sweep(found)
            tell_spent(console, spent)
            said = f"All points are on {page}; tables and figures are beside it."
            console.print(said, highlight=False, soft_wrap=True)
        else:
            page = save(found, out)  # before a word is said: who listens may have gone
            _show(found)
            tell_spent(console, spent)
            console.print(f"The report is {page}; numbers and figures are beside it.", highlight=False, soft_wrap=True)


def _next(board: Board, number: int, points: int, point: Point) -> None:
    """Of a sweep."""
    board.bar("points", "all points", number, points)
    board.line(f"point {number + 1} of {points}: {point}")


def _running(board: Board, kept: list[Path], out: Path, spent: list[Spent], news: News) -> None:
    """A run has been measured."""
    if news.spent is not None:
        spent.append(news.spent)
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
    for sentence in (*verdict(found.lines, found.target), found.selection, *notes(found)):
        console.print(sentence, highlight=False, markup=False)


def _show_sweep(found: Sweep) -> None:
    console.print(sweep_table(found))
    for sentence in found.notes:
        console.print(sentence, highlight=False, markup=False)
