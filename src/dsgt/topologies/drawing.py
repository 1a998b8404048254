"""Pictures of networks: who hears whom, how much, and how fast they agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import networkx as nx
import numpy as np
import scipy
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dsgt.core import Matrix
from dsgt.topologies.check import graph_of_numbers
from dsgt.topologies.matrix import MatrixLike, as_matrix
from dsgt.topologies.spectrum import is_symmetric, rho

Array = np.ndarray[Any, np.dtype[np.float64]]

DRAWN_UP_TO = 400
"""More nodes than this are a blot on a page."""
PLAIN = {"negative": "#c0182b", "none": "#bbbbbb"}
COLOURS = ListedColormap(matplotlib.colormaps["viridis_r"](np.linspace(0.2, 1, 256)))
"""From green to dark; the yellow end cannot be seen on paper."""


def draw(graph: nx.Graph[int], W: MatrixLike, path: str | Path | None = None, *, title: str | None = None) -> Figure:
    """The network as a picture, saved to path: wide dark edges weigh much, dashed red ones are negative."""
    figure = Figure(figsize=(7.4, 6.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    matrix = _checked(graph, W)
    _network(axes, graph, matrix)
    mixing = f"rho = {rho(matrix):.4g}"
    axes.set_title(f"{title}: {mixing}" if title else f"{len(graph)} nodes, {graph.number_of_edges()} edges: {mixing}")
    _save(figure, path)
    return figure


def draw_side_by_side(
    networks: Mapping[str, tuple[nx.Graph[int], MatrixLike]], path: str | Path | None = None, *, rounds: int = 30
) -> Figure:
    """Several networks with their rho, and below them how fast each averages the same random numbers."""
    if not networks:
        raise ValueError("draw_side_by_side was given no networks; give a mapping of names to (graph, W)")
    checked = {name: (graph, _checked(graph, W)) for name, (graph, W) in networks.items()}
    columns = len(checked)
    figure = Figure(figsize=(max(7.0, 3.9 * columns), 7.6), layout="constrained")
    FigureCanvasAgg(figure)
    places = figure.add_gridspec(2, columns, height_ratios=(1.25, 1))
    curves = figure.add_subplot(places[1, :])
    for k, (name, (graph, W)) in enumerate(checked.items()):
        axes = figure.add_subplot(places[0, k])
        _network(axes, graph, W, bar=False)
        axes.set_title(f"{name}\n{graph.number_of_edges()} edges, rho = {rho(W):.3g}")
        curves.semilogy(averaging_curve(W, rounds), label=name)
    curves.set(xlabel="round", ylabel="disagreement, relative", xlim=(0, rounds), ylim=(1e-12, 2))
    curves.set_title("averaging the same random numbers")
    curves.grid(alpha=0.3)
    curves.legend(loc="lower left")
    _save(figure, path)
    return figure


def averaging_curve(W: Matrix, rounds: int, *, seed: int = 0) -> Array:
    """||x_k - mean|| / ||x_0 - mean|| for x_{k+1} = W x_k from random numbers."""
    x = np.random.default_rng(seed).standard_normal((W.shape[0], 8))
    mean = x.mean(axis=0)
    sizes = [np.linalg.norm(x - mean)]
    for _ in range(rounds):
        x = W @ x
        sizes.append(np.linalg.norm(x - mean))
    # A single node agrees with itself from the start.
    return np.asarray(np.maximum(np.array(sizes) / max(float(sizes[0]), 1e-300), 1e-17))


def layout(graph: nx.Graph[int]) -> dict[int, Array]:
    """Places that show the structure: those the graph brings, an arc, a circle, or springs."""
    n = len(graph)
    places = nx.get_node_attributes(graph, "pos")
    if len(places) == n:
        return {v: np.asarray(p, dtype=float) for v, p in places.items()}
    degrees = [d for _, d in graph.degree]
    if n > 2 and not graph.is_directed() and nx.is_tree(graph) and max(degrees) == 2:
        # A half circle: in a straight line many nodes would touch.
        turns = np.linspace(np.pi, 0, n)
        return {v: np.array([np.cos(a), np.sin(a)]) for v, a in zip(_along(graph), turns, strict=True)}
    around = all(graph.has_edge(v, (v + 1) % n) for v in range(n)) if n > 2 else True
    if around or n <= 2:
        return nx.circular_layout(graph)
    if graph.is_directed() or n > 150:
        return nx.spring_layout(graph, seed=0)
    return nx.kamada_kawai_layout(graph)


def _along(graph: nx.Graph[int]) -> list[int]:
    end = min(v for v, d in graph.degree if d == 1)
    return list(nx.dfs_preorder_nodes(graph, end))


def _checked(graph: nx.Graph[int], W: MatrixLike) -> Matrix:
    matrix = as_matrix(W)
    graph_of_numbers(graph, "draw")
    if matrix.shape[0] != len(graph):
        raise ValueError(f"draw was given a graph of {len(graph)} nodes and a W of {matrix.shape[0]}; they must agree")
    if len(graph) > DRAWN_UP_TO:
        raise ValueError(
            f"draw was given {len(graph)} nodes, but more than {DRAWN_UP_TO} cannot be told apart in a picture"
        )
    return matrix


def _network(axes: Axes, graph: nx.Graph[int], W: Matrix, *, bar: bool = True) -> None:
    n = len(graph)
    places = layout(graph)
    entries = scipy.sparse.csr_array(W)
    # An edge (j, i) is what i hears from j; of an undirected edge both directions weigh the same.
    weights = {(j, i): float(entries[i, j]) for j, i in graph.edges}
    top = max((abs(w) for w in weights.values()), default=1.0) or 1.0
    scale = Normalize(0, top)
    shown: dict[str, list[tuple[int, int]]] = {"positive": [], "none": [], "negative": []}
    for edge, w in weights.items():
        shown["positive" if w > 1e-9 else "negative" if w < -1e-9 else "none"].append(edge)
    size = max(30.0, min(420.0, 9000 / n)) * (1.0 if bar else 0.55)
    widest = 1.6 if graph.is_directed() else 4.2
    bend: dict[str, Any] = {"connectionstyle": "arc3,rad=0.08"} if graph.is_directed() else {}
    styles = {"positive": "solid", "none": "dotted", "negative": "dashed"}
    for kind, edges in shown.items():
        colours = [COLOURS(scale(weights[e])) if kind == "positive" else PLAIN[kind] for e in edges]
        widths = [0.6 + widest * abs(weights[e]) / top for e in edges]
        nx.draw_networkx_edges(
            graph, places, edges, ax=axes, edge_color=colours, width=widths, style=styles[kind], node_size=size, **bend
        )
    nx.draw_networkx_nodes(graph, places, ax=axes, node_size=size, node_color="#f4f1e8", edgecolors="#333333")
    if n <= 60:
        nx.draw_networkx_labels(
            graph, places, ax=axes, font_size=max(5.0, min(10.0, 110 / n + 4)) * (1.0 if bar else 0.8)
        )
    axes.set_axis_off()
    axes.margins(0.08)
    axes.set_aspect("equal")
    _legend(axes, shown)
    if bar and shown["positive"]:
        mappable = ScalarMappable(scale, COLOURS)
        colourbar = axes.figure.colorbar(mappable, ax=axes, shrink=0.7, pad=0.01)
        colourbar.set_label("weight of the edge" if is_symmetric(W) else "weight that the hearer gives")


def _legend(axes: Axes, shown: dict[str, list[tuple[int, int]]]) -> None:
    lines = []
    if shown["negative"]:
        label = f"negative weight ({len(shown['negative'])})"
        lines.append(Line2D([], [], color=PLAIN["negative"], linestyle="dashed", label=label))
    if shown["none"]:
        lines.append(Line2D([], [], color=PLAIN["none"], linestyle="dotted", label=f"weight 0 ({len(shown['none'])})"))
    if lines:
        axes.legend(handles=lines, loc="upper left", frameon=False, fontsize=8, bbox_to_anchor=(0, 0.02))


def _save(figure: Figure, path: str | Path | None) -> None:
    if path is None:
        return
    path = Path(path)
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"{path.name} ends in {path.suffix!r}, but a picture is written to .png, .pdf or .svg")
    figure.savefig(path, dpi=100)
