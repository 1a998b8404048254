"""Weights that a method may use on a graph: by the rule asked for, or the nearest that it may use."""

from __future__ import annotations

from dsgt.core import Needs, Weights
from dsgt.late import nx
from dsgt.topologies.changing import Fixed, TwoMatrices
from dsgt.topologies.needs import complaints
from dsgt.topologies.weights import WEIGHTS, averaging, pull_weights, push_weights


def suited(needs: Needs, graph: nx.Graph[int], rule: str) -> tuple[Weights, str]:
    """The weights, and what they are called; a ValueError says what a method with these needs lacks."""
    if needs.average:
        return Fixed(averaging(len(graph))), "all"
    if graph.is_directed():
        return _on_directed_links(needs, graph)
    for tried in (rule, "metropolis", "lazy-metropolis"):
        W = Fixed(WEIGHTS[tried](graph), all_reduce=False)
        if not (why := complaints(needs, W)):
            return W, tried
    raise ValueError(why[0])


def _on_directed_links(needs: Needs, graph: nx.Graph[int]) -> tuple[Weights, str]:
    """Where links have a direction, W is made of what the method can use: rows, columns, or one matrix of each."""
    pull, push = (Fixed(W, all_reduce=False) for W in (pull_weights(graph), push_weights(graph)))
    rules: dict[str, Weights] = {"pull": pull, "push": push, "pull, push": TwoMatrices(pull, push)}
    for rule, weights in rules.items():
        if not complaints(needs, weights):
            return weights, rule
    raise ValueError(
        f"needs W to be {needs}, which no rule gives for a graph whose links have a direction; use a method for "
        "directed graphs (dsgt methods says which), or a graph without directions"
    )
