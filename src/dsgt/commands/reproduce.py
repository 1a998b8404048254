"""``dsgt reproduce``: the paper's figures and claims, measured again."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from dsgt.commands import terminal
from dsgt.commands.errors import plain_errors
from dsgt.commands.progress import Board
from dsgt.reproduce import NAMES, experiment
from dsgt.text import nearest

if TYPE_CHECKING:
    from dsgt.reproduce.lab import AnyExperiment, Plan, Tables

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = terminal.console()
FINISHED = "finished.jsonl"
EPILOG = (
    "Examples:\n\n- `dsgt reproduce all --quick`\n- `dsgt reproduce example1 independence`\n"
    "- `dsgt reproduce fig2 --data-dir DIR --seeds 5`"
)


@app.command(epilog=EPILOG)
def reproduce(
    names: Annotated[list[str], typer.Argument(help=f"all, or some of: {', '.join(NAMES)}.")],
    quick: Annotated[bool, typer.Option("--quick", help="Minutes: smaller, on the embedded digits.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="The directory that holds cifar-10-batches-py; else DSGT_DATA says.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where runs, tables and figures go.")] = Path("runs/reproduce"),
    seeds: Annotated[int | None, typer.Option(help="Repetitions, where there is chance.", min=1)] = None,
    epochs: Annotated[float | None, typer.Option(help="Length of the training runs.")] = None,
    workers: Annotated[int, typer.Option(help="Runs at a time.", min=1)] = 2,
) -> None:
    """Measure the paper's figures and claims again, and say what was found.

    The full form trains on CIFAR-10 and takes hours; --quick takes minutes and needs no data. Every finished run is
    kept in --out under all that determines it: a command that was interrupted, given again, goes on where it was.
    """
    from dsgt.data.cifar import CIFAR10  # here, with torch, pandas and matplotlib: --help answers without them
    from dsgt.reproduce.cases import Finished
    from dsgt.reproduce.lab import Lab

    finished = None
    with plain_errors(console, RuntimeError, kept=lambda: None if finished is None else out):
        chosen = _chosen(names)
        plans = {name: _plan(e, quick, seeds, epochs) for name, e in chosen.items()}
        folder = out / ("quick" if quick else "full")
        folder.mkdir(parents=True, exist_ok=True)
        root = (
            CIFAR10.locate(data_dir, download=None).parent if any(p.data == "cifar10" for p in plans.values()) else None
        )
        finished = Finished(out / FINISHED)
        if quick:
            console.print("Quick form: small, and on the 8 × 8 digits instead of CIFAR-10.", highlight=False)
        for name, e in chosen.items():
            console.print(f"\n[bold]{name}[/]  {escape(e.claim)}", highlight=False)
            with Board(console) as board:
                tables = e.measure(Lab(finished, workers, partial(_told, board, name), root), plans[name])
            _write(name, e, plans[name], tables, folder)
    console.print(f"\nTables and figures are in {escape(str(folder))}.", highlight=False, soft_wrap=True)


def _told(board: Board, name: str, done: int, total: int, last: str) -> None:
    board.bar(name, f"{name}  {last}", done, total)
    board.line(f"{name}: {done} of {total}, last {last}")


def _chosen(names: Sequence[str]) -> dict[str, AnyExperiment]:
    for name in names:
        if name not in ("all", *NAMES):
            raise ValueError(nearest(name, ("all", *NAMES), "experiment"))
    return {name: experiment(name) for name in NAMES if name in names or "all" in names}


def _plan(e: AnyExperiment, quick: bool, seeds: int | None, epochs: float | None) -> Plan:
    if epochs is not None and not (math.isfinite(epochs) and epochs > 0):
        raise ValueError(f"epochs is {epochs}; expected a finite number above 0")
    plan: Plan = (e.quick if quick else e.full).adjusted(seeds=seeds, epochs=epochs)
    return plan


def _write(name: str, e: AnyExperiment, plan: Plan, tables: Tables, folder: Path) -> None:
    from dsgt.reproduce import style
    from dsgt.reproduce.cases import VERSIONS, machine

    for table, rows in tables.items():
        rows.to_csv(folder / f"{name}-{table}.csv", index=False)
    style.save(lambda: e.figure(tables, plan), folder / name)
    found = e.findings(tables, plan)
    about = {"plan": asdict(plan), "versions": VERSIONS, "machine": machine(), "findings": found}
    (folder / f"{name}.json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n")
    for line in found:
        console.print(f"- {escape(line)}", highlight=False, soft_wrap=True)
