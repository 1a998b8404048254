"""What was found, in a terminal."""

from __future__ import annotations

from itertools import groupby
from statistics import fmean
from typing import Any

from rich import box
from rich.table import Table

from dsgt.comparison import Comparison, Job, MethodRuns, Settings, Sweep
from dsgt.comparison.measured import COSTS, Row
from dsgt.text import short, with_spread

CAPTION = "mean, worst: test accuracy of the mean model and of the worst node; apart: from their mean"


def results_table(found: Comparison) -> Table:
    """Every method at its best learning rate."""
    s = found.settings
    table = Table(
        title=f"{_about(s)}, {s.seeds} {'seed' if s.seeds == 1 else 'seeds'}", box=box.SIMPLE_HEAD, caption=CAPTION
    )
    _columns(table, "method", "weights", "lr", "loss", "mean", "worst", "apart", "MB")
    for line in found.lines:
        rule = line.weights
        if line.converged:
            table.add_row(line.method, rule, f"{line.lr:g}", _loss(line), *_ends(line))
        else:
            table.add_row(line.method, rule, "diverged", "at every lr")
    return table


def _ends(line: MethodRuns) -> list[str]:
    forms = {"accuracy": ".1%", "node_accuracy_min": ".1%", "consensus": ".2g", "megabytes": ".3g"}
    ends = {key: line.final(key) for key in forms}
    return ["" if value is None else format(value, forms[key]) for key, value in ends.items()]


def costs_table(found: Comparison, target: float) -> Table:
    """What it takes each method to reach the target."""
    s = found.settings
    chosen = "as asked for" if s.target is not None else "the lowest that all who learn reach"
    table = Table(
        title=f"To a loss of {target:.3f} ({chosen})",
        box=box.SIMPLE_HEAD,
        caption=f"virtual clock: {s.compute:g} s a sample, {s.latency:g} s latency, {s.bandwidth:g} bytes/s",
    )
    _columns(table, "method", *(cost.heading for cost in COSTS.values()))
    for line in found.lines:
        costs = (line.at_target(target, key) for key in COSTS)
        table.add_row(line.method, *("never" if cost is None else f"{cost:.3g}" for cost in costs))
    return table


def sweep_table(found: Sweep) -> Table:
    """Every method at every point."""
    target = "" if found.target is None else f"; s: virtual seconds to a loss of {found.target:.3g}"
    table = Table(box=box.SIMPLE_HEAD, caption=f"worst: test accuracy of the worst node{target}")
    asked = {point.settings.weights for point in found.found} | {"all", "file", ""}
    others = any(row["line"].weights not in asked for row in found.numbers)  # who differs in them is compared with care
    _columns(table, "at", "method", *(["weights"] if others else []), "lr", "loss", "worst", "apart", "s")
    for at, group in groupby(found.numbers, key=lambda row: row["at"]):
        rows = list(group)
        for place, row in zip(_below(at, len(rows)), rows, strict=True):
            line = row["line"]
            lr = f"{line.lr:g}{'!' * bool(line.edge)}" if line.converged else "diverged"
            loss = _loss(line) if line.converged else ""
            numbers = (_mean(row[key], form) for key, form in SWEPT.items())
            table.add_row(place, line.method, *([line.weights] if others else []), lr, loss, *numbers)
        table.add_section()
    return table


def _below(at: dict[str, Any], rows: int) -> list[str]:
    """Where a point is, a setting a row; what does not fit below the others is in the last."""
    words = [f"{key} {short(value) if isinstance(value, float) else value}" for key, value in at.items()]
    words += [""] * (rows - len(words))
    return [*words[: rows - 1], "\n".join(words[rows - 1 :])]


def _loss(line: MethodRuns) -> str:
    return with_spread(line.loss, line.spread).replace("± ", "±")


SWEPT = {"node_accuracy_min": ".1%", "consensus": ".2g", "virtual_seconds_to_target": ".3g"}


def _mean(values: list[float], form: str) -> str:
    return format(fmean(values), form) if values else ""


def run_table(job: Job, rule: str, last: Row) -> Table:
    """One run, as it ended."""
    table = Table(title=_about(job.settings), box=box.SIMPLE_HEAD, caption=CAPTION)
    _columns(table, "method", "weights", "lr", "rounds", "loss", "mean", "worst", "apart", "MB", wrap=True)
    accuracies = (f"{last[key]:.1%}" if key in last else "" for key in ("accuracy", "node_accuracy_min"))
    sizes = (f"{last['consensus']:.2g}", f"{last['megabytes']:.3g}")
    table.add_row(job.method, rule, f"{job.lr:g}", str(last["round"]), f"{last['loss']:.4f}", *accuracies, *sizes)
    return table


def _about(s: Settings) -> str:
    return f"{s.model} on {s.data}, {s.nodes} nodes, {s.partition}, {s.graph} graph, {s.ends}"


def _columns(table: Table, *headings: str, wrap: bool = False) -> None:
    for heading in headings:
        words = heading in ("at", "method", "weights")
        folds = wrap or heading in ("at", "method", "loss")  # a long name, or the spread behind a loss, gives way
        table.add_column(heading, justify="left" if words else "right", no_wrap=not folds, overflow="fold")
