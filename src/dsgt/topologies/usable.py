"""Weights that a method may use, on a network as a person names it."""

from __future__ import annotations

from dsgt.core import Needs, Weights
from dsgt.factories import Factory
from dsgt.topologies.changing import Cycle, as_weights
from dsgt.topologies.graphs import complete
from dsgt.topologies.names import CYCLES, named_network
from dsgt.topologies.needs import complaints
from dsgt.topologies.suited import suited

Asked = tuple[str, Needs, str | Factory, int, str]
Found = tuple[Weights, str]

known: dict[Asked, Found] = {}
"""What was found before. A worker process is told, and then needs no graphs."""
MOST_KNOWN = 64


def usable_weights(name: str, needs: Needs, graph: str | Factory, nodes: int, rule: str) -> Found:
    """The weights of the cycle, the file or the rule, or the nearest that a method of these needs may use, and what
    they are."""
    asked = name, needs, graph, nodes, rule
    if asked not in known:
        found = _found(*asked)
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[asked] = found
    return known[asked]


def _found(name: str, needs: Needs, graph: str | Factory, nodes: int, rule: str) -> Found:
    if isinstance(graph, str) and graph in CYCLES and not needs.average:
        cycle = Cycle(CYCLES[graph](nodes))
        if why := complaints(needs, cycle):
            raise ValueError(f"{name} {why[0]}")
        return cycle, graph
    if isinstance(graph, str) and graph in CYCLES:
        return suited(needs, complete(nodes), rule)
    network = named_network(graph, nodes)
    if network.W is not None and not complaints(needs, W := as_weights(network.W, all_reduce=needs.average)):
        return W, "file"
    try:
        return suited(needs, network.graph, rule)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None
