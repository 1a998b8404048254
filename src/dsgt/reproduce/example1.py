"""Example 1: D² diverges where DSGT converges, with the exact thresholds (the paper's, corrected by E8 to E10).

Three nodes on a path with f_i(x) = (x - a_i)^2 / 2 and the fastest weights of that graph, whose smallest eigenvalue is
-1/2. The error of a method then shrinks or grows by the largest root of its recursion, which is measured here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from dsgt.algorithms import ALGORITHMS
from dsgt.reproduce import style
from dsgt.reproduce.cases import Row
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables
from dsgt.reproduce.training_run import Unchecked
from dsgt.run import iterate
from dsgt.theory.stability import spectral_radius, window

W = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
A = torch.tensor([[0.0], [1.0], [4.0]], dtype=torch.float64)
METHODS = ("dsgt", "d2", "gnsd", "extra", "exact-diffusion")
CLAIMED = 0.3
"""A step where the paper says that D² diverges and DSGT converges."""


@dataclass(frozen=True)
class Path:
    """One method at one step on the three quadratics, exact gradients."""

    method: str
    lr: float
    rounds: int

    def __call__(self) -> list[Row]:
        """How far the nodes are from the minimiser, in every round, until it is lost in rounding or enormous."""
        method = Unchecked(ALGORITHMS[self.method]())
        start = torch.ones(1, dtype=torch.float64)
        rows = []
        for k, state in zip(
            range(self.rounds + 1), iterate(method, lambda x, _: x - A, W, start, self.lr), strict=False
        ):
            error = float((state.x - A.mean()).norm())
            rows.append({"round": k, "error": error})
            if not 1e-11 < error < 1e250:
                break
        return rows


@dataclass(frozen=True)
class Steps(Plan):
    lrs: tuple[float, ...] = ()
    rounds: int = 1000
    margin: float = 0.01
    """How close to a threshold a run must change its mind."""
    methods: tuple[str, ...] = METHODS


FULL = Steps(lrs=tuple(round(0.02 * i, 4) for i in range(1, 108)))
QUICK = Steps(lrs=tuple(round(0.05 * i, 4) for i in range(1, 44)))


def thresholds(method: str) -> list[tuple[float, bool]]:
    """The exact steps at which a method begins (True) or ceases (False) to converge."""
    limits = window(ALGORITHMS[method], W)
    return [(limits.low, True)] * (limits.low > 0) + [(limits.high, False)]


def measure(lab: Lab, plan: Steps) -> Tables:
    runs = lab.table([Path(m, lr, plan.rounds) for m in plan.methods for lr in sorted({*plan.lrs, CLAIMED})])
    factors = [
        {"method": m, "lr": lr, "factor": factor(run), "exact": radius(m, lr)}
        for m in plan.methods
        for lr in plan.lrs
        for run in [runs[(runs["method"] == m) & (runs["lr"] == lr)]]
    ]
    near = [
        (m, at, begins, Path(m, round(at + side * plan.margin, 6), 20 * plan.rounds), side)
        for m in plan.methods
        for at, begins in thresholds(m)
        for side in (-1, 1)
    ]
    lab.table([case for *_, case, _ in near])
    rows = []
    for m, at, begins, case, side in near:
        converges = lab.finished[case][-1]["error"] < 1e-8
        rows.append(
            {"method": m, "threshold": at, "lr": case.lr, "converges": converges, "exact": begins == (side > 0)}
        )
    shown = runs[runs["lr"] == CLAIMED]
    return {"curves": shown.reset_index(drop=True), "factors": pd.DataFrame(factors), "thresholds": pd.DataFrame(rows)}


def radius(method: str, lr: float) -> float:
    return spectral_radius(ALGORITHMS[method], np.linalg.eigvalsh(W), lr)


def factor(run: pd.DataFrame) -> float:
    """How much the error grows in a round: the slope of its logarithm over the second half of the run."""
    half = run[run["error"] > 0].iloc[len(run) // 2 :]
    if len(half) < 2:
        return math.nan
    return float(np.exp(np.polyfit(half["round"], np.log(half["error"].to_numpy(dtype=float)), 1)[0]))


def figure(tables: Tables, plan: Steps) -> Figure:
    picture, (a, b) = style.panels(1, 2, width=4.0)
    for method, run in tables["curves"].groupby("method", sort=False):
        a.plot(run["round"], run["error"], color=style.COLOURS[str(method)], label=style.NAMES[str(method)])
    a.set(xlabel="round", ylabel="distance from the optimum", yscale="log", xlim=(0, 150), ylim=(1e-11, 1e11))
    a.set_title(f"(a) step {CLAIMED}")
    a.legend()
    table = tables["factors"]
    for method in plan.methods:
        some, colour = table[table["method"] == method].sort_values("lr"), style.COLOURS[method]
        b.plot(some["lr"], some["exact"], color=colour, label=style.NAMES[method])
        b.plot(some["lr"], some["factor"], ".", color=colour, ms=3)
        for at, _ in thresholds(method):
            b.plot([at], [1.0], "|", color=colour, ms=14, mew=2)
    b.axhline(1.0, color="0.3", lw=0.8)
    b.set(xlabel="step γ", ylabel="factor of the error per round", ylim=(0.35, 1.6))
    b.set_title("(b) lines: exact, dots: measured, bars: thresholds")
    picture.suptitle("Example 1: three quadratics on a path, λₙ = −1/2")
    return picture


def findings(tables: Tables, plan: Steps) -> list[str]:
    table = tables["thresholds"]
    wrong = table[table["converges"] != table["exact"]]
    said = [
        f"{style.NAMES[m]} converges exactly for {w.low:g} < γ < {w.high:g}"
        for m in plan.methods
        for w in [window(ALGORITHMS[m], W)]
    ]
    right = len(table) - len(wrong)
    said.append(
        f"Measured {plan.margin} on either side of each threshold: {right} of {len(table)} runs do as the theory says."
    )
    gap = (tables["factors"]["factor"] - tables["factors"]["exact"]).abs().median()
    said.append(f"The measured factor per round differs from the largest root by {gap:.1e} (median over all steps).")
    return said


EXPERIMENT = Experiment(
    claim="With the optimal W of a path of three, D² diverges for small steps where DSGT converges for γ ≤ 1",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
