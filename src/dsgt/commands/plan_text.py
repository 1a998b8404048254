"""A plan in plain words; every number with what it assumes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dsgt import topologies
from dsgt.core import Matrix
from dsgt.theory.centralized import SMALLEST_BATCH, given_union
from dsgt.theory.directed import DirectedPlan
from dsgt.theory.plan import Plan
from dsgt.theory.traffic import Round

COLOURS = {"good": "green", "slow": "yellow", "biased": "yellow", "no": "red"}


Sections: TypeAlias = "dict[str, Iterator[str] | Iterator[Table]]"


def show(console: Console, plan: Plan, *, compute: float | None, latency: float, bandwidth: float) -> None:
    """Section by section; one that has nothing to say is left out."""
    sections: Sections = {
        "The network": network(plan),
        "The learning rate": iter([str(plan.advice)]),
        "When the network stops mattering": independence(plan),
        "Beside centralized SGD with the same batch and learning rate": beside_sgd(plan),
        "Speedup over one node": speedup(plan, compute, latency, bandwidth),
        "Methods": methods(plan),
        "The constants, and what they assume": constants(plan),
    }
    _show(console, plan, sections)


def show_directed(console: Console, plan: DirectedPlan) -> None:
    """Where links have a direction."""
    sections: Sections = {
        "The network": directed_network(plan),
        "Methods, each on weights that it may use": methods(plan),
        "The constants, and what they assume": constants(plan),
    }
    _show(console, plan, sections)


def show_traffic(
    console: Console,
    rounds: list[Round],
    parameters: int,
    W: Matrix,
    *,
    latency: float,
    bandwidth: float,
    compute: float,
) -> None:
    """What a round of every method sends, for a model of which only the size is known."""
    degree = topologies.describe(W).max_degree
    console.print(
        f"\n[bold]{W.shape[0]} nodes, at most {degree} neighbours each, {parameters:,} parameters in float32[/bold]\n"
        f"A link of {bandwidth / 1e6:g} MB/s ({bandwidth / 125e3:g} Mbit/s) and {latency:g} s; a gradient takes "
        f"{compute:g} s, and free messages travel behind it.",
        highlight=False,
    )
    table = Table("compressor", "MB to each neighbour", "seconds a round")
    table.add_column("methods", overflow="fold")
    for r in rounds:
        table.add_row(r.compressor or "none", f"{r.megabytes:,.4g}", f"{r.seconds:,.3g}", ", ".join(r.methods))
    console.print(table)
    console.print(
        "A round of one method is not worth a round of another: dsgt compare draws loss against megabytes. Compressed "
        "methods send the model once in full when they begin.",
        highlight=False,
    )


def _show(console: Console, plan: Plan | DirectedPlan, sections: Sections) -> None:
    p = plan.problem
    drawn = int(p.batch.sum())
    console.print(f"\n[bold]{p.nodes} nodes, {p.samples} samples, {p.dim} parameters, {drawn} samples a round[/bold]")
    for title, section in sections.items():
        lines = list(section)
        if lines:
            console.print(f"\n[bold]{title}[/bold]")
        for line in lines:
            console.print(escape(line) if isinstance(line, str) else line)


def count(rounds: float) -> str:
    """To two digits, as people write it: 890, 12,000, 1.6e+09."""
    return f"{float(f'{rounds:.2g}'):,.0f}" if rounds < 1e6 else f"{rounds:.2g}"


def network(plan: Plan) -> Iterator[str]:
    e = plan.estimate
    halving = topologies.describe(plan.W).rounds_to_halve
    yield f"rho = {e.rho:.4g}: {halving:.3g} rounds halve a disagreement between the nodes."
    if e.sigma2.value == 0:
        return
    if plan.extra_noise is None:
        yield "W is not symmetric, or very large: only the worst case below is known about its noise."
    else:
        yield (
            f"What it costs at the advised learning rate: the nodes' models scatter around their mean with "
            f"{plan.extra_noise:.2g} times the variance that the noise gives the mean itself (exact for equal "
            f"quadratics of curvature {e.L_F_met:.3g}). Above 1, average the models, or end with a smaller lr."
        )


def directed_network(plan: DirectedPlan) -> Iterator[str]:
    yield (
        "Its links have a direction, and no rule gives it a doubly stochastic W. DSGT's theorems say nothing here: "
        "there is no advice, no speedup and no picture, only which methods need less, on pull weights (rows sum to 1), "
        f"push weights (columns do) or both. With pull weights a round leaves {plan.estimate.rho:.4g} of a "
        "disagreement, in the long run."
    )


def independence(plan: Plan) -> Iterator[str]:
    if plan.estimate.sigma2.value == 0:
        yield "At once: the gradients carry no noise, and disagreement shrinks with the gradient."
        return
    K = plan.independent_from
    if K is not None:
        verdict = "yours is long enough" if plan.rounds >= K else "yours is shorter: a denser graph would still pay"
        yield (
            f"For runs of more than about {count(K)} rounds ({verdict}), if lr is chosen like 1/sqrt(rounds) and the "
            "losses are like equal quadratics."
        )
    share = plan.bound(plan.rounds).network_share
    yield (
        f"Guaranteed by Corollary 2, for any smooth loss: from {count(plan.independent_worst)} rounds on. After "
        f"{plan.rounds} rounds the network is {share:.0%} of the worst-case bound."
    )


def beside_sgd(plan: Plan) -> Iterator[str]:
    if plan.centralized is None:
        return
    yield f"The noise costs {plan.centralized.ratio:.2g} times as much ({plan.centralized.assumption})."
    drawn = int(plan.problem.batch.sum())
    if drawn > SMALLEST_BATCH:
        factor = given_union(M=drawn)
        yield f"For random equal shards the bound is at most {factor:.3g} times that of SGD with twice the noise."
    else:
        yield f"No guarantee: the comparison needs more than {SMALLEST_BATCH} samples a round (E30)."


def speedup(plan: Plan, compute: float | None, latency: float, bandwidth: float) -> Iterator[str]:
    s = plan.speedup(compute=compute, latency=latency, bandwidth=bandwidth)
    equal = s.balance > 0.99 * plan.problem.nodes
    yield (
        f"{s.ideal:.3g} if messages were free: {s.balance:.3g} because shards "
        f"{'are equal' if equal else 'differ in size'}, times {s.curvature:.2g} because the most "
        "curved node sets the step (section 5.3, A1 and equal noise assumed)."
    )
    timed = "gradients timed on this machine" if compute is None else f"a gradient {compute:g} s a sample"
    yield (
        f"{s.total:.3g} with messages: computing takes {s.communication:.0%} of a round ({timed}, messages "
        f"{latency:g} s + bytes/{bandwidth:g}, the tracker's message travels behind the gradient)."
    )


def methods(plan: Plan | DirectedPlan) -> Iterator[Table]:
    table = Table("method", "lr up to", "vectors sent")
    table.add_column("fit for this network and data", overflow="fold")
    table.columns[0].no_wrap = True
    for fit in plan.methods():
        colour = COLOURS[fit.verdict.split(":")[0]]
        measured = " (measured)" if fit.how.startswith("measured") else ""
        limit = f"{fit.lr:.3g}{measured}" if 0 < fit.lr < math.inf else ""
        table.add_row(fit.method, limit, f"{fit.sends:g}" if fit.sends else "", f"[{colour}]{escape(fit.verdict)}[/]")
    yield table


def constants(plan: Plan | DirectedPlan) -> Iterator[str]:
    e = plan.estimate
    yield (
        f"L = {e.L:.3g} (worst node), {e.L_met:.3g} met while training; of the mean loss {e.L_F:.3g}; "
        f"sigma^2 = {e.sigma2}; lambda = {e.lam:.2g}; zeta^2 = {e.zeta2:.3g}; F(x1) - F* = {e.gap:.3g}"
    )
    for line in e.assumptions:
        yield f"- {line}"
