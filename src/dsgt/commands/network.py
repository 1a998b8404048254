"""``dsgt network``: look at a network, compare the weights it could have, draw it; or have one designed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dsgt import topologies
from dsgt.commands import terminal
from dsgt.core import Matrix
from dsgt.late import nx
from dsgt.text import nearest
from dsgt.theory.usable import usable
from dsgt.topologies.check import directed
from dsgt.topologies.files import Stored

app = typer.Typer(
    help="Describe, compare, draw and design networks.", invoke_without_command=True, add_completion=False
)
console = terminal.console()

PICTURES = (".png", ".pdf", ".svg")
FDLA_MOST = 2000
"""The edges up to which the table of rules includes the two optimal ones without being asked."""


@app.callback()
def network(
    context: typer.Context,
    graph: Annotated[str, typer.Option(help=f"One of: {', '.join(topologies.GRAPHS)}.")] = "random",
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 24,
    weights: Annotated[str, typer.Option(help=f"One of: {', '.join(topologies.WEIGHTS)}.")] = "metropolis",
    degree: Annotated[int | None, typer.Option(help="Neighbours of a node, for graphs that can be told.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random graphs.", min=0)] = 0,
    file: Annotated[Path | None, typer.Option(help="Read the graph from a file instead.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write graph and weights: .json or .npz.")] = None,
    picture: Annotated[Path, typer.Option(help="Where the picture goes: .png, .pdf or .svg.")] = Path("network.png"),
) -> None:
    """Describe a network, compare all weight rules on it, and draw it."""
    if context.invoked_subcommand is not None:
        return
    _check_names(graph, weights)
    _check_paths(out, picture)
    stored = _graph(graph, nodes, degree, seed, file, weights)
    chosen = _weights(weights, stored)
    _print_description(weights if stored.W is None else "the file's", stored.graph, chosen)
    _print_rules(stored.graph)
    _write(stored.graph, chosen, out, picture, f"{file.name if file else graph}, {weights}")


@app.command("design")
def design(
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 24,
    rho: Annotated[float | None, typer.Option(help="Reach this rho with few edges.")] = None,
    degree: Annotated[int | None, typer.Option(help="Reach a small rho with at most this many neighbours.")] = None,
    seed: Annotated[int, typer.Option(help="Of the search.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Write graph and weights: .json or .npz.")] = None,
    picture: Annotated[Path, typer.Option(help="Where the picture goes: .png, .pdf or .svg.")] = Path("network.png"),
) -> None:
    """A network that reaches a rho with few edges, or the smallest rho within a degree."""
    _check_paths(out, picture)
    try:
        found = topologies.design(nodes, rho=rho, degree=degree, seed=seed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    table = Table("network", "edges", "most neighbours", "rho", title="FDLA weights on all of them")
    rows = [(r.name, r.edges, r.max_degree, r.rho) for r in found.rivals]
    rows.append(("designed", found.edges, found.max_degree, found.rho))
    for name, edges, most, value in sorted(rows, key=lambda row: row[1]):
        style = "bold green" if name == "designed" else None
        table.add_row(name, str(edges), str(most), f"{value:.4f}", style=style)
    console.print(table)
    _write(found.graph, found.W, out, picture, "designed")


def _check_names(graph: str, weights: str) -> None:
    if graph not in topologies.GRAPHS:
        raise typer.BadParameter(nearest(graph, topologies.GRAPHS, "graph"), param_hint="--graph")
    if weights not in topologies.WEIGHTS:
        raise typer.BadParameter(nearest(weights, topologies.WEIGHTS, "weight rule"), param_hint="--weights")


def _check_paths(out: Path | None, picture: Path) -> None:
    for path, endings, hint in ((out, (".json", ".npz"), "--out"), (picture, PICTURES, "--picture")):
        if path is None:
            continue
        if path.suffix not in endings:
            raise typer.BadParameter(f"{path} must end in {' or '.join(endings)}", param_hint=hint)
        if not path.absolute().parent.is_dir():
            raise typer.BadParameter(f"there is no directory {path.parent}; make it first", param_hint=hint)


def _graph(name: str, nodes: int, degree: int | None, seed: int, file: Path | None, weights: str) -> Stored:
    try:
        if file is not None:
            stored = topologies.read_network(file)
            directed(stored.graph, file.name)
            return stored
        stored = topologies.named_network(name, nodes, degree=degree, seed=seed)
        if stored.graph.is_directed() and weights not in ("push", "pull"):
            raise ValueError(f"the graph {name!r} is directed, but {weights!r} weights are symmetric; use push or pull")
    except (ValueError, TypeError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    return stored


def _weights(rule: str, stored: Stored) -> Matrix:
    if stored.W is not None:
        return stored.W
    try:
        return topologies.WEIGHTS[rule](stored.graph)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _print_description(rule: str, graph: nx.Graph[int], W: Matrix) -> None:
    d = topologies.describe(W)
    table = Table("", "", title=f"{rule} weights", show_header=False)
    rows = {
        "nodes": d.nodes,
        "links" if graph.is_directed() else "edges": graph.number_of_edges(),
        "most neighbours": d.max_degree,
        "messages a round": d.messages,
        "rho": f"{d.rho:.6f}",
        "1 - rho": f"{d.gap:.3g}",
        "lambda_2": "not symmetric" if d.lambda_2 is None else f"{d.lambda_2:.6f}",
        "lambda_n": "not symmetric" if d.lambda_n is None else f"{d.lambda_n:.6f}",
        "rounds to halve the disagreement": f"{d.rounds_to_halve:.3g}",
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    console.print(table)
    methods = Table("method", "may use it", "why not, and what to do", title="methods")
    for name, complaint in usable(W).items():
        methods.add_row(name, "[red]no[/red]" if complaint else "[green]yes[/green]", complaint)
    console.print(methods)


def _print_rules(graph: nx.Graph[int]) -> None:
    table = Table("weights", "rho", "rounds to halve", "lambda_n", "smallest weight", title="all rules on this graph")
    for name, rule in topologies.WEIGHTS.items():
        optimal = name in ("fdla", "fmmc")
        if graph.is_directed() and name not in ("push", "pull"):
            continue
        if optimal and graph.number_of_edges() > FDLA_MOST:
            table.add_row(name, f"(over {FDLA_MOST} edges: ask for it with --weights {name})", "", "", "")
            continue
        W = rule(graph)
        d = topologies.describe(W)
        low = "" if d.lambda_n is None else f"{d.lambda_n:.4f}"
        table.add_row(name, f"{d.rho:.6f}", f"{d.rounds_to_halve:.3g}", low, f"{W.min():.4f}")
    console.print(table)


def _write(graph: nx.Graph[int], W: Matrix, out: Path | None, picture: Path, title: str) -> None:
    if out is not None:
        topologies.write_network(out, graph, W)
        console.print(f"graph and weights: {out}")
    try:
        topologies.draw(graph, W, picture, title=title)
    except ValueError as error:
        console.print(f"no picture: {error}")
    else:
        console.print(f"picture: {picture}")
