"""What ``dsgt train`` does around a run: agree on what is trained, show how far it is, write what was measured."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from dsgt._version import __version__
from dsgt.checkpoint.together import everyone, words
from dsgt.comparison import Job
from dsgt.comparison.job import Row
from dsgt.core import Network
from dsgt.networks.launched import Launched
from dsgt.problems.erm import EmpiricalRisk

SECONDS_A_LINE = 5.0
"""Between two lines of progress, where the output is a file."""


def prepare(job: Job, network: Network, out: Path) -> EmpiricalRisk:
    """The problem, and a place for the rows; or a ValueError, the same at every node, before work starts."""
    trouble, problem = "", None
    try:
        problem = job.settings.problem(job.seed)
        if not network.node:
            out.mkdir(parents=True, exist_ok=True)
            (out / "rows.jsonl").touch()
    except (ValueError, OSError) as error:
        trouble = str(error)
    for node, said in enumerate(words(network, trouble)):
        if said:
            raise ValueError(said if network.node is None else f"node {node}: {said}")
    about = json.dumps(job.settings.model_dump(mode="json", exclude={"data_dir"}) | {"seed": job.seed})
    mine = int.from_bytes(hashlib.sha256(about.encode()).digest()[:6], "big")  # exact in a float64
    prints = everyone(network, [mine])[:, 0]
    if (other := (prints != prints[0]).nonzero().flatten()).numel():
        raise ValueError(f"nodes 0 and {int(other[0])} were given different flags; give all of them the same")
    assert problem is not None
    return problem


class Watch:
    """Progress, shown by one process: a bar in a terminal, now and then a line elsewhere."""

    def __init__(self, console: Console, rounds: int, *, shown: bool) -> None:
        self.rows: list[Row] = []
        self.console, self.rounds, self.shown = console, rounds, shown
        self.live = shown and console.is_terminal
        columns = (
            TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[what]}"),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=console, transient=True, disable=not self.live)
        self.task = self.progress.add_task("", total=rounds, what="")
        self.said = time.monotonic()

    def __enter__(self) -> Watch:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, row: Row) -> None:
        self.rows.append(row)
        self.progress.update(self.task, completed=row["round"], what=f"loss {row['loss']:.4g}")
        if self.shown and not self.live and time.monotonic() - self.said > SECONDS_A_LINE:
            self.said = time.monotonic()
            self.console.print(f"round {row['round']} of {self.rounds}, loss {row['loss']:.4g}", highlight=False)


def write(job: Job, launched: Launched, out: Path, rows: Sequence[Row]) -> None:
    label = {"method": job.method, "lr": job.lr, "seed": job.seed}
    about = job.settings.model_dump(mode="json", exclude={"methods", "lrs", "seeds", "target"}) | label
    about |= {"backend": launched.kind, "versions": {"dsgt": __version__, "torch": torch.__version__}}
    (out / "settings.json").write_text(json.dumps(about, indent=2) + "\n")
    (out / "rows.jsonl").write_text("".join(json.dumps(label | row) + "\n" for row in rows))


def table(job: Job, rule: str, last: Row) -> Table:
    s = job.settings
    found = Table(
        title=f"{s.model} on {s.data}, {s.nodes} nodes, {s.partition}, {s.graph} graph, {s.epochs:g} epochs",
        box=box.SIMPLE_HEAD,
        caption="mean, worst: test accuracy of the mean model and of the worst node; apart: from their mean",
    )
    for name in ("method", "weights", "lr", "rounds", "loss", "mean", "worst", "apart", "MB"):
        found.add_column(name, justify="left" if name in ("method", "weights") else "right")
    accuracies = (f"{last['accuracy']:.1%}", f"{last['node_accuracy_min']:.1%}")
    sizes = (f"{last['consensus']:.2g}", f"{last['megabytes']:.3g}")
    found.add_row(job.method, rule, f"{job.lr:g}", str(last["round"]), f"{last['loss']:.4f}", *accuracies, *sizes)
    return found
