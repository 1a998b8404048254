"""The picture of a plan: what the bound is made of, and what another network would change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dsgt import topologies
from dsgt.theory.bounds import independence_rounds
from dsgt.theory.independence import ALL_EIGENVALUES_UP_TO, typical_rounds
from dsgt.theory.plan import Plan, rivals

TERMS = {
    "optimisation": ("#1f4e8c", "-"),
    "variance": ("#c0182b", "-"),
    "network": ("#d98200", "-"),
    "initial": ("#777777", "--"),
}

PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
"""Behind words that cross a line."""


def draw_plan(plan: Plan, path: str | Path | None = None) -> Figure:
    """Left: the terms of Theorem 1 against the rounds K. Right: when the network stops mattering, against rho."""
    figure = Figure(figsize=(12.4, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _terms(left, plan)
    if plan.estimate.sigma2.value > 0:
        _networks(right, plan)
    else:
        right.text(0.5, 0.5, "exact gradients:\nthe network costs no accuracy", ha="center", va="center")
        right.set_axis_off()
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _terms(axes: Axes, plan: Plan) -> None:
    last = max(1e4, 10 * plan.rounds, min(1e15, 100 * plan.independent_worst))
    K = np.unique(np.geomspace(1, last, 160).astype(np.int64))
    bounds = [plan.bound(int(k)) for k in K]
    total = np.array([b.total for b in bounds])
    if not total.any():  # nothing that a logarithmic axis could show
        axes.text(0.5, 0.5, "the run starts at the minimiser:\nthe bound is zero", ha="center", va="center")
        axes.set_axis_off()
        return
    for name, (colour, style) in TERMS.items():
        values = np.array([getattr(b, name) for b in bounds])
        if (values > 0).any():
            axes.plot(K, np.where(values > 0, values, np.nan), style, color=colour, label=name, linewidth=1.8)
    axes.plot(K, total, color="black", label="total", linewidth=2.4, alpha=0.35)
    axes.axvline(plan.rounds, color="black", linewidth=0.8, linestyle=":")
    axes.annotate(f" {plan.rounds} rounds", (plan.rounds, 0.02), xycoords=("data", "axes fraction"), fontsize=9)
    axes.set(xscale="log", yscale="log", xlabel="rounds K", ylabel="bound on the mean squared gradient of F")
    axes.set_ylim(bottom=total.min() * 1e-3)
    axes.set_title("Theorem 1, worst case: what the bound is made of")
    axes.legend(frameon=False, fontsize=9)
    axes.grid(alpha=0.25)


def _networks(axes: Axes, plan: Plan) -> None:
    c = plan.estimate.constants
    gap = np.geomspace(min(0.5 * (1 - c.rho), 1e-2), 0.999, 80)
    worst = [independence_rounds(replace(c, rho=1 - g)) for g in gap]
    axes.plot(gap, worst, color="#d98200", label="Corollary 2, worst case", linewidth=1.8)
    marks = {name: W for name, W in rivals(min(c.n, ALL_EIGENVALUES_UP_TO)).items() if topologies.rho(W) > 1e-9}
    for name, W in marks.items():
        x, y = 1 - topologies.rho(W), typical_rounds(c, W)
        axes.plot(x, y, "o", color="#1f4e8c", markersize=5)
        axes.annotate(name, (x, y), xytext=(5, 5), textcoords="offset points", fontsize=9, bbox=PAPER)
    axes.plot([], [], "o", color="#1f4e8c", label="equal quadratics, exact")
    if plan.independent_from is not None and c.rho > 0:
        axes.plot(1 - c.rho, plan.independent_from, "*", color="#c0182b", markersize=14, label="this network")
    axes.axhline(plan.rounds, color="black", linewidth=0.8, linestyle=":")
    axes.annotate(f"{plan.rounds} rounds", (0.01, plan.rounds), xycoords=("axes fraction", "data"), fontsize=9)
    axes.set(xscale="log", yscale="log", xlabel="1 - rho (right: mixes fast)", ylabel="rounds K")
    axes.set_title("From this K on the network costs less than the noise")
    axes.legend(frameon=False, fontsize=9)
    axes.grid(alpha=0.25)
