"""``dsgt replay``: a recorded run of real processes once more, in this one, and whether it gives the same models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dsgt.asynchronous import job, recorded
from dsgt.asynchronous.node import Node
from dsgt.commands import terminal
from dsgt.commands.errors import plain_errors
from dsgt.commands.progress import Board
from dsgt.commands.train_async import planned

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = terminal.console()


@app.command()
def replay_command(
    record: Annotated[Path, typer.Argument(help="What was given as --record; node i wrote RECORD.i.")],
    data_dir: Annotated[Path | None, typer.Option(help="Where CIFAR-10 is; or set DSGT_DATA.")] = None,
) -> None:
    """Do a recorded asynchronous run again in one process, and compare every model, bit for bit."""
    with plain_errors(console):
        records = read(record)
        about = records[0].about
        given = about["settings"] | ({} if data_dir is None else {"data_dir": data_dir})
        plan = planned(given, about["method"], about["lr"], about["seed"])
        wakes = sum(len(one.prints) - 1 for one in records)
        done = 0
        with Board(console) as board:

            def watch(node: Node[Any]) -> None:
                nonlocal done
                done += 1
                board.bar("wakes", "wake", done, wakes)

            problem = plan.problem()
            same = job.again(plan.algorithm, problem, plan.weights, records, lr=plan.lr, seed=plan.seed, watch=watch)
    console.print(
        f"{plan.method}: all {same - len(records)} models after a wake and the {len(records)} last ones are those of "
        "the run, bit for bit.",
        highlight=False,
        soft_wrap=True,
    )


def read(record: Path) -> list[recorded.Record]:
    """Of all nodes; a ValueError says which one is missing, or does not belong to them."""
    first = recorded.read(recorded.path_of(record, 0), 0)
    nodes = first.about.get("nodes")
    if not isinstance(nodes, int) or "settings" not in first.about:
        raise ValueError(f"{record}.0 does not say what was run; expected what dsgt train --record wrote")
    found = [first]
    for i in range(1, nodes):
        path = recorded.path_of(record, i)
        if not path.exists():
            raise ValueError(f"{path} is missing: the job had {nodes} nodes; bring the records of all of them here")
        found.append(recorded.read(path, i))
        if found[i].about | {"node": 0} != first.about | {"node": 0}:
            raise ValueError(f"{path} and {record}.0 are of different runs")
    return found
