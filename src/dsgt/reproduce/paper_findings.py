"""What the tables of figures 2 and 3 say, in sentences; differences seed by seed, with a test."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from dsgt.reproduce import style
from dsgt.reproduce.lab import Tables, records
from dsgt.reproduce.paper import Task, best_of, common, diverged, last, on_clock, rounds_to


def findings(tables: Tables, task: Task) -> list[str]:
    curves, best = tables["curves"], best_of(tables["tuning"])
    said = [
        f"{style.NAMES[str(m)]} (lr {best[str(m)]:g}): final loss {over_seeds(ends['loss'])}, test accuracy "
        f"{over_seeds(ends['accuracy'], '.2%')}"
        for m, ends in last(curves).groupby("method", sort=False)
    ]
    others = [m for m in task.methods if m not in ("dsgt",)]
    said += [paired(curves, "dsgt", other, "loss") for other in others]
    said += halfway(on_clock(curves, tables["clock"], task), task)
    said += edge_notes(tables["tuning"], best)
    said += [
        f"DSGT with {r['weights']} weights over n = {r['nodes']} diverges at lr {r['lr']:g}, in round {r['round']}"
        for r in records(diverged(tables["scaling"]))
    ]
    said += [
        f"There, over n = {r['nodes']}, {style.NAMES[r['method']]} with {r['weights']} weights ends with a loss of "
        f"{r['loss']:.4f}"
        for r in (records(last(tables["causes"])) if "causes" in tables else [])
    ]
    scaling = common(tables["scaling"])
    ends = last(scaling).groupby("nodes")["loss"].mean()
    table = tables["speedup"]
    rounds = table[table["network"] == table["network"].iloc[0]].set_index("nodes")["rounds"]
    said.append(
        f"DSGT's final loss at lr {scaling['lr'].iloc[0]:g}: "
        + ", ".join(f"n = {n}: {v:.4f}" for n, v in ends.items())
        + "; rounds to the loss that all reach: " + ", ".join(f"n = {n}: {v:.0f}" for n, v in rounds.items())
    )  # fmt: skip
    for wire, some in table.groupby("network", sort=False):
        values = some.set_index("nodes")["speedup"]
        said.append(f"Speedup ({wire}): " + ", ".join(f"n = {n}: {v:.1f}" for n, v in values.items()))
    return said


def over_seeds(ends: pd.Series[float], form: str = ".4f") -> str:
    """Mean and standard deviation of the runs that did not diverge, and how many did."""
    kept = ends[np.isfinite(ends.astype(float))]
    if not len(kept):
        return "none, all diverged"
    spread = kept.std() if len(kept) > 1 else 0.0
    gone = f" ({len(ends) - len(kept)} of {len(ends)} seeds diverged)" if len(kept) < len(ends) else ""
    return f"{kept.mean():{form}} ± {spread:{form}}{gone}"


def paired(curves: pd.DataFrame, one: str, other: str, key: str) -> str:
    """The difference of two methods at the end, seed by seed: the same shards and the same batches."""
    ends = last(curves).pivot(index="seed", columns="method", values=key)
    difference = (ends[one] - ends[other]).to_numpy(dtype=float)
    return f"{key} of {style.NAMES[one]} minus {style.NAMES[other]}: {verdict(difference)}"


def verdict(difference: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    """Mean and standard deviation of differences seed by seed, and whether a t-test tells them from zero (5 %)."""
    mean = float(difference.mean())
    if len(difference) < 2:
        return f"{mean:+.4f}, one seed"
    if not np.isfinite(difference).all():
        return "not finite: a run diverged"
    spread = float(difference.std(ddof=1))
    error = spread / math.sqrt(len(difference))
    # Written out: differences that are equal but for the last bits are no reason to warn, as ttest_1samp does.
    p = 1.0 if mean == 0 else 0.0 if error == 0 else 2 * float(student.sf(abs(mean) / error, len(difference) - 1))
    said = "a difference" if p < 0.05 else "no difference beyond the spread"
    return f"{mean:+.4f} ± {spread:.4f} over {len(difference)} seeds ({said}, p = {p:.2g})"


def halfway(curves: pd.DataFrame, task: Task) -> list[str]:
    """Epochs and virtual seconds to the training loss that DSGT has on average at half time."""
    ours = curves[(curves["method"] == "dsgt") & (curves["epochs"] <= task.epochs / 2 + 0.01)]
    target = float(ours[ours["epochs"] == ours["epochs"].max()]["loss"].mean())
    said = []
    for method, runs in curves.groupby("method", sort=False):
        rounds = np.array([rounds_to(run, target) for _, run in runs.groupby("seed")])
        later = runs[runs["round"] > 0].iloc[-1]
        there = rounds[np.isfinite(rounds)]
        if not len(there):
            said.append(f"{style.NAMES[str(method)]} does not reach a loss of {target:.3f}")
            continue
        epochs, seconds = (there * later[unit] / later["round"] for unit in ("epochs", "seconds"))
        some = f", in {len(there)} of {len(rounds)} seeds" if len(there) < len(rounds) else ""
        said.append(
            f"{style.NAMES[str(method)]} reaches a loss of {target:.3f} after {epochs.mean():.1f} epochs "
            f"({epochs.min():.1f} to {epochs.max():.1f}), {seconds.mean():.3g} virtual seconds{some}"
        )
    return said


def edge_notes(tuning: pd.DataFrame, best: dict[str, float]) -> list[str]:
    grid = sorted(tuning["lr"].unique())
    found = [style.NAMES[m] for m, lr in best.items() if len(grid) > 1 and lr in (grid[0], grid[-1])]
    return [f"The best learning rate is at the edge of the grid for {', '.join(found)}."] if found else []
