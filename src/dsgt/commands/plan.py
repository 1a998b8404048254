"""``dsgt plan``: what to expect of a run before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

from dsgt import topologies
from dsgt.core import Matrix
from dsgt.data.names import DATA
from dsgt.problems.erm import EmpiricalRisk
from dsgt.problems.named import MODELS, named_problem
from dsgt.text import nearest
from dsgt.theory.centralized import SMALLEST_BATCH, given_union
from dsgt.theory.plan import Plan
from dsgt.theory.plan import plan as make_plan
from dsgt.theory.plan_picture import draw_plan

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = Console()
PICTURES = (".png", ".pdf", ".svg")


@app.command()
def plan(
    data: Annotated[str, typer.Option(help=f"One of: {', '.join(DATA)}.")] = "digits",
    model: Annotated[str, typer.Option(help=f"One of: {', '.join(MODELS)}.")] = "logistic",
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 12,
    graph: Annotated[str, typer.Option(help=f"A network file, or one of: {', '.join(topologies.GRAPHS)}.")] = "ring",
    weights: Annotated[str, typer.Option(help=f"One of: {', '.join(topologies.WEIGHTS)}.")] = "metropolis",
    rounds: Annotated[int, typer.Option(help="How many rounds the run shall take.", min=1)] = 2000,
    batch: Annotated[int, typer.Option(help="The global batch M of all nodes together.", min=1)] = 256,
    skew: Annotated[float | None, typer.Option(help="Label skew: a Dirichlet parameter; 0.1 is strong.")] = None,
    l2: Annotated[float, typer.Option(help="Weight decay.", min=0.0)] = 1e-3,
    latency: Annotated[float, typer.Option(help="Seconds to start a message.", min=0.0)] = 1e-4,
    bandwidth: Annotated[float, typer.Option(help="Bytes a second over one link.", min=1.0)] = 1e9,
    seed: Annotated[int, typer.Option(help="Of the shards, the graph and the draws.")] = 0,
    root: Annotated[Path | None, typer.Option(help="Where CIFAR-10 is.")] = None,
    picture: Annotated[Path, typer.Option(help="Where the picture goes: .png, .pdf or .svg.")] = Path("plan.png"),
) -> None:
    """What the network costs, which learning rate to use, when the network stops mattering, what speedup to expect."""
    for given, known, what in (
        (data, DATA, "data set"),
        (model, MODELS, "model"),
        (weights, topologies.WEIGHTS, "weight rule"),
    ):
        if given not in known:
            raise typer.BadParameter(nearest(given, known, what))
    if picture.suffix not in PICTURES or not picture.absolute().parent.is_dir():
        raise typer.BadParameter(f"{picture} must end in {' or '.join(PICTURES)}, in a directory that exists")
    try:
        W = _weights(graph, weights, nodes, seed)
        problem = _problem(data, model, nodes, batch, skew, l2, seed, root)
        found = make_plan(problem, W, rounds, seed=seed)
        show(found, latency=latency, bandwidth=bandwidth)
    except (ValueError, TypeError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error)) from error
    draw_plan(found, picture)
    console.print(f"picture: {picture}")


def _weights(graph: str, weights: str, nodes: int, seed: int) -> Matrix:
    network = topologies.named_network(graph, nodes, seed=seed)
    return topologies.WEIGHTS[weights](network.graph) if network.W is None else network.W


def _problem(
    name: str, model: str, nodes: int, batch: int, skew: float | None, l2: float, seed: int, root: Path | None
) -> EmpiricalRisk:
    return named_problem(
        name,
        model,
        nodes=nodes,
        partition="equal" if skew is None else f"dirichlet:{skew}",
        batch=batch,
        seed=seed,
        root=root,
        l2=l2,
        dtype=torch.float32 if model == "lenet" else torch.float64,
    )


def show(plan: Plan, *, latency: float, bandwidth: float) -> None:
    """The plan in plain words; every number with what it assumes."""
    e, p = plan.estimate, plan.problem
    d = topologies.describe(plan.W)
    say = console.print
    drawn = int(p.batch.sum())
    say(f"\n[bold]{p.nodes} nodes, {p.samples} samples, {p.dim} parameters, {drawn} samples a round[/bold]")

    say("\n[bold]The network[/bold]")
    say(f"rho = {e.rho:.4g}: {d.rounds_to_halve:.3g} rounds halve a disagreement between the nodes.")
    if plan.extra_noise is not None and e.sigma2.value > 0:
        say(
            f"What it costs at the advised learning rate: the nodes' models scatter around their mean with "
            f"{plan.extra_noise:.2g} times the variance that the noise gives the mean itself (exact for equal "
            f"quadratics of curvature {e.L_F_met:.3g}). Above 1, average the models, or end with a smaller lr."
        )
    elif e.sigma2.value > 0:
        say("W is not symmetric, or very large: only the worst case below is known about its noise.")

    say("\n[bold]The learning rate[/bold]")
    say(str(plan.advice), markup=False)

    say("\n[bold]When the network stops mattering[/bold]")
    if e.sigma2.value == 0:
        say("At once: the gradients carry no noise, and disagreement shrinks with the gradient.")
    else:
        if plan.independent_from is not None:
            K = plan.independent_from
            verdict = "yours is long enough" if plan.rounds >= K else "yours is shorter: a denser graph would still pay"
            say(
                f"For runs of more than about {K:.2g} rounds ({verdict}), if lr is chosen like 1/sqrt(rounds) and the "
                "losses are like equal quadratics."
            )
        share = plan.bound(plan.rounds).network_share
        say(
            f"Guaranteed by Corollary 2, for any smooth loss: from {plan.independent_worst:.2g} rounds on. After "
            f"{plan.rounds} rounds the network is {share:.0%} of the worst-case bound."
        )

    if plan.centralized is not None:
        say("\n[bold]Beside centralized SGD with the same batch and learning rate[/bold]")
        say(f"The noise costs {plan.centralized.ratio:.2g} times as much ({plan.centralized.assumption}).")
        if drawn > SMALLEST_BATCH:
            factor = given_union(M=drawn)
            say(f"For random equal shards the bound is at most {factor:.3g} times that of SGD with twice the noise.")
        else:
            say(f"No guarantee: the comparison needs more than {SMALLEST_BATCH} samples a round (E30).")

    say("\n[bold]Speedup over one node[/bold]")
    s = plan.speedup(latency=latency, bandwidth=bandwidth)
    say(
        f"{s.ideal:.3g} if messages were free: {s.balance:.3g} because shards "
        f"{'are equal' if s.balance > 0.99 * p.nodes else 'differ in size'}, times {s.curvature:.2g} because the most "
        "curved node sets the step (section 5.3, A1 and equal noise assumed)."
    )
    say(
        f"{s.total:.3g} with messages: computing takes {s.communication:.0%} of a round (gradients timed on this "
        f"machine, messages {latency:g} s + bytes/{bandwidth:.0e}, the tracker's message travels behind the gradient)."
    )

    table = Table("method", "lr up to", "vectors sent", "fit for this network and data", title="Methods")
    colours = {"good": "green", "slow": "yellow", "biased": "yellow", "no": "red"}
    for fit in plan.methods():
        word = fit.verdict.split(":")[0]
        about = " (measured)" if fit.how.startswith("measured") else ""
        limit = f"{fit.lr:.3g}{about}" if fit.lr else ""
        table.add_row(fit.method, limit, str(fit.sends), f"[{colours[word]}]{fit.verdict}[/]")
    say(table)

    say("[bold]The constants, and what they assume[/bold]")
    say(
        f"L = {e.L:.3g} (worst node), {e.L_met:.3g} met while training; of the mean loss {e.L_F:.3g}; "
        f"sigma^2 = {e.sigma2}; lambda = {e.lam:.2g}; zeta^2 = {e.zeta2:.3g}; F(x1) - F* = {e.gap:.3g}"
    )
    for line in e.assumptions:
        say(f"- {line}", markup=False)
