"""Comparisons made by hand: final losses in, rows out, so that a test knows what a report must say."""

from __future__ import annotations

import math
from typing import Any

from dsgt.comparison import Comparison, Settings

START, ROUNDS = 2.3, 40


def comparison(
    finals: dict[str, dict[float, list[float]]], *, without: tuple[str, ...] = (), apart: int = 0, **given: Any
) -> Comparison:
    """``finals[method][lr]`` are the final losses of the seeds; infinity is a run that diverged half way. So many nodes
    are ``apart``: node i of the first seed is i + 1 from the mean model, and in every tenth round half of that."""
    rates = next(iter(finals.values()))
    given = {"nodes": 4, "graph": "ring", "weights": "metropolis", "epochs": 4.0} | given
    settings = Settings(methods=tuple(finals), lrs=tuple(rates), seeds=len(next(iter(rates.values()))), **given)
    runs = (
        (m, lr, seed, end) for m, grid in finals.items() for lr, ends in grid.items() for seed, end in enumerate(ends)
    )
    rows = [
        {key: value for key, value in row.items() if key not in without}
        for number, (method, lr, seed, end) in enumerate(runs)
        for row in run(method, lr, seed, end, number)
    ]
    for row in rows:
        if row["seed"] == 0 and "diverged" not in row:
            row |= {f"apart_{i}": (i + 1) / 2 ** (row["round"] // 10) for i in range(apart)}
    return Comparison(settings, rows)


def run(method: str, lr: float, seed: int, end: float, number: int) -> list[dict[str, Any]]:
    """A loss that falls evenly from START to its end."""
    label = {"method": method, "lr": lr, "seed": seed}
    rows: list[dict[str, Any]] = []
    for k in range(0, ROUNDS + 1, 10):
        if k > ROUNDS / 2 and not math.isfinite(end):
            return [*rows, label | {"round": k, "loss": math.inf, "diverged": True}]
        loss = START + ((end if math.isfinite(end) else 9.0) - START) * k / ROUNDS
        agreed = 0.0 if method == "sgd" else 0.01 * (1 + k)
        measured = {"round": k, "epochs": k / 10, "megabytes": k * (1 + number % 3), "virtual_seconds": k / 7}
        accuracy = min(1.0, 0.5 / loss) if loss > 0 else 1.0
        shares = {"accuracy": accuracy, "node_accuracy_min": accuracy - 0.02}
        rows.append(label | measured | {"loss": loss, "consensus": agreed} | shares)
    return rows
