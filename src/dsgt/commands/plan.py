"""``dsgt plan``: what to expect of a run before it starts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import torch
import typer

from dsgt import topologies
from dsgt.commands import terminal
from dsgt.commands.plan_text import show, show_directed, show_traffic
from dsgt.core import Matrix, Needs
from dsgt.data.names import DATA
from dsgt.problems.erm import EmpiricalRisk
from dsgt.problems.named import MODELS, named_problem
from dsgt.text import nearest
from dsgt.theory.directed import directed_plan
from dsgt.theory.plan import plan as make_plan
from dsgt.theory.plan_picture import draw_plan
from dsgt.theory.traffic import rounds_of_all
from dsgt.topologies.suited import suited

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = terminal.console()
PICTURES = (".png", ".pdf", ".svg")
ROUNDS = 2000
HOLDINGS = "Who holds what: equal, dirichlet:ALPHA (label skew; 0.1 is strong) or labels:COUNT."


@app.command()
def plan(
    data: Annotated[str, typer.Option(help=f"One of: {', '.join(DATA)}.")] = "digits",
    model: Annotated[str, typer.Option(help=f"One of: {', '.join(MODELS)}.")] = "logistic",
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 12,
    partition: Annotated[str, typer.Option(help=HOLDINGS)] = "equal",
    graph: Annotated[str, typer.Option(help=f"A network file, or one of: {', '.join(topologies.GRAPHS)}.")] = "ring",
    weights: Annotated[str, typer.Option(help=f"One of: {', '.join(topologies.WEIGHTS)}.")] = "metropolis",
    rounds: Annotated[int | None, typer.Option(help=f"How long the run shall be. Default: {ROUNDS}.", min=1)] = None,
    epochs: Annotated[float | None, typer.Option(help="The same, in looks at all samples.")] = None,
    batch: Annotated[int, typer.Option(help="Samples a round, all nodes together.", min=1)] = 256,
    l2: Annotated[float, typer.Option(help="Weight decay.", min=0.0)] = 1e-3,
    compute: Annotated[
        float | None, typer.Option(help="Seconds a node needs for one sample's gradient. Default: measured.")
    ] = None,
    latency: Annotated[float, typer.Option(help="Seconds a message travels.", min=0.0)] = 1e-4,
    bandwidth: Annotated[float, typer.Option(help="Bytes a second over one link.", min=1.0)] = 1e9,
    seed: Annotated[int, typer.Option(help="Of the shards, the graph and the draws.", min=0)] = 0,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", "--root", help="Where CIFAR-10 is; or set DSGT_DATA.")
    ] = None,
    parameters: Annotated[
        float | None,
        typer.Option(help="Of any model, such as 25e6: what a round of every method then sends, and nothing else."),
    ] = None,
    picture: Annotated[Path, typer.Option(help="Where the picture goes: .png, .pdf or .svg.")] = Path("plan.png"),
    skew: Annotated[float | None, typer.Option(help="The same as --partition dirichlet:ALPHA.")] = None,
) -> None:
    """What the network costs, which learning rate to use, when the network stops mattering, what speedup to expect."""
    _known("data", data, DATA, "data set")
    _known("model", model, MODELS, "model")
    _known("weights", weights, topologies.WEIGHTS, "weight rule")
    _above_0(epochs=epochs, compute=compute)
    if rounds is not None and epochs is not None:
        raise typer.BadParameter("give --rounds or --epochs, not both")
    if picture.suffix not in PICTURES or not picture.absolute().parent.is_dir():
        raise typer.BadParameter(f"{picture} must end in {' or '.join(PICTURES)}, in a directory that exists")
    holdings = partition if skew is None else f"dirichlet:{skew}"
    if parameters is not None and not (parameters >= 1 and parameters == int(parameters)):
        raise typer.BadParameter(f"{parameters:g} is no number of parameters, such as 25e6", param_hint="--parameters")
    try:
        links = topologies.named_network(graph, nodes, seed=seed)
        W = _weights(links, weights)
        if parameters is not None and W is not None:
            link = {"latency": latency, "bandwidth": bandwidth, "compute": (compute or 0.0) * batch / nodes}
            show_traffic(console, rounds_of_all(W, int(parameters), **link), int(parameters), W, **link)
            return
        problem = _problem(data, model, nodes, holdings, batch, l2, seed, data_dir)
        if W is None:
            show_directed(console, directed_plan(problem, links.graph, seed=seed))
            return
        if epochs is not None:
            rounds = max(1, round(epochs / problem.epochs_per_round))
        found = make_plan(problem, W, rounds or ROUNDS, seed=seed)
        show(console, found, compute=compute, latency=latency, bandwidth=bandwidth)
    except (ValueError, TypeError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error)) from error
    draw_plan(found, picture)
    console.print(f"picture: {picture}")


def _known(flag: str, given: str, known: Iterable[str], what: str) -> None:
    if given not in known:
        raise typer.BadParameter(nearest(given, known, what), param_hint=f"--{flag}")


def _above_0(**flags: float | None) -> None:
    for flag, value in flags.items():
        if value is not None and not value > 0:
            raise typer.BadParameter(f"{value:g} is not above 0", param_hint=f"--{flag}")


def _weights(links: topologies.Stored, rule: str) -> Matrix | None:
    """None where links have a direction and no rule makes a doubly stochastic W for them."""
    if links.W is not None:
        return links.W
    if not links.graph.is_directed():
        return topologies.WEIGHTS[rule](links.graph)
    try:
        return suited(Needs(), links.graph, rule)[0].at(0)
    except ValueError:
        return None


def _problem(
    name: str, model: str, nodes: int, partition: str, batch: int, l2: float, seed: int, root: Path | None
) -> EmpiricalRisk:
    return named_problem(
        name,
        model,
        nodes=nodes,
        partition=partition,
        batch=batch,
        seed=seed,
        root=root,
        l2=l2,
        dtype=torch.float32 if model == "lenet" else torch.float64,
    )
