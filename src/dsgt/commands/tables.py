"""What a comparison found, in a terminal."""

from __future__ import annotations

import math

from rich import box
from rich.table import Table

from dsgt.comparison import Comparison
from dsgt.comparison.result import SELECTION


def results_table(found: Comparison) -> Table:
    """Every method at its best learning rate."""
    s = found.settings
    table = Table(
        title=f"{s.model} on {s.data}, {s.nodes} nodes, {s.partition}, {s.graph} graph, {s.epochs:g} epochs, "
        f"{s.seeds} {'seed' if s.seeds == 1 else 'seeds'}",
        box=box.SIMPLE_HEAD,
        caption="mean, worst: test accuracy of the mean model and of the worst node; apart: from their mean",
    )
    _columns(table, "method", "weights", "lr", "loss", "mean", "worst", "apart", "MB")
    for method, line in found.table().iterrows():
        if found.diverged(str(method)):
            table.add_row(str(method), line.weights, "diverged", "at every lr")
            continue
        table.add_row(
            str(method),
            line.weights,
            f"{line.lr:g}",
            f"{line.loss:.3f} ±{line.spread:.3f}",
            f"{line.accuracy:.1%}",
            f"{line.node_accuracy_min:.1%}",
            f"{line.consensus:.2g}",
            f"{line.megabytes:.0f}",
        )
    return table


def costs_table(found: Comparison) -> Table:
    """What it takes each method to reach the target."""
    s = found.settings
    chosen = "as asked for" if s.target is not None else "the lowest that all who learn reach"
    table = Table(
        title=f"To a loss of {found.target:.3f} ({chosen})" if found.target else "",
        box=box.SIMPLE_HEAD,
        caption=f"virtual clock: {s.compute:g} s a sample, {s.latency:g} s latency, {s.bandwidth:g} bytes/s",
    )
    _columns(table, "method", "epochs", "rounds", "MB", "virtual s")
    for method, line in found.table().iterrows():
        costs = (line.epochs_to_target, line.rounds_to_target, line.megabytes_to_target, line.virtual_seconds_to_target)
        table.add_row(str(method), *("never" if math.isnan(c) else f"{c:.3g}" for c in costs))
    return table


def notes(found: Comparison) -> list[str]:
    """What a careful reader of the table should know."""
    s, table = found.settings, found.table()
    said = [SELECTION]
    for method, line in table.iterrows():
        if line.weights not in (s.weights, "all", "push", "file"):
            said.append(f"{method} may not use {s.weights} weights here, so it ran with {line.weights} ones.")
    said += [f"{m}: {line.diverged} of its runs diverged." for m, line in table.iterrows() if line.diverged]
    if len(s.lrs) > 1:
        for end, which, better in ((max(s.lrs), "largest", "larger"), (min(s.lrs), "smallest", "smaller")):
            edge = [str(m) for m, line in table.iterrows() if line.lr == end]
            if edge:
                said.append(f"Best at the {which} lr tried, so a {better} one may be better: {', '.join(edge)}.")
    return said


def _columns(table: Table, *headings: str) -> None:
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("method", "weights") else "right", no_wrap=True)
