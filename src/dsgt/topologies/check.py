"""What a graph must be before any work starts."""

from __future__ import annotations

from dsgt.late import nx


def graph_of_numbers(graph: nx.Graph[int], user: str) -> None:
    """A simple graph on the nodes 0 ... n - 1."""
    if not isinstance(graph, nx.Graph):
        raise TypeError(f"{user} was given a {type(graph).__name__}, but needs a networkx graph; see dsgt.topologies")
    if graph.is_multigraph():
        raise ValueError(f"{user} was given a multigraph, but one link has one weight; use networkx.Graph(graph)")
    if len(graph) == 0:
        raise ValueError(f"{user} was given a graph without nodes; a network has at least one")
    if set(graph.nodes) != set(range(len(graph))):
        odd = next(v for v in graph.nodes if v not in range(len(graph)))
        raise ValueError(
            f"{user} was given a graph with a node {odd!r}, but nodes are called 0 ... {len(graph) - 1}; "
            "use networkx.convert_node_labels_to_integers(graph)"
        )
    loop = next(iter(nx.selfloop_edges(graph)), None)
    if loop is not None:
        raise ValueError(
            f"{user} was given a graph with a self loop at node {loop[0]}, but a node's own weight follows from the "
            "others; remove it with graph.remove_edges_from(networkx.selfloop_edges(graph))"
        )


def undirected(graph: nx.Graph[int], user: str) -> None:
    """A connected undirected graph on the nodes 0 ... n - 1: what a symmetric rule needs."""
    graph_of_numbers(graph, user)
    if graph.is_directed():
        raise ValueError(
            f"{user} was given a directed graph, but its weights are symmetric; use graph.to_undirected(), "
            "or push_weights and pull_weights for directed links"
        )
    reached = nx.node_connected_component(graph, 0)
    if len(reached) < len(graph):
        other = next(v for v in range(len(graph)) if v not in reached)
        raise ValueError(
            f"{user} was given a graph that is not connected: no path joins node 0 and node {other}; add links, or use "
            "the largest component"
        )


def directed(graph: nx.Graph[int], user: str) -> None:
    """A strongly connected graph on the nodes 0 ... n - 1; an undirected one counts as both directions."""
    if not graph.is_directed():
        undirected(graph, user)
        return
    graph_of_numbers(graph, user)
    down = {0} | nx.descendants(graph, 0)
    up = {0} | nx.ancestors(graph, 0)
    for v in range(len(graph)):
        if v not in down or v not in up:
            source, sink = (0, v) if v not in down else (v, 0)
            raise ValueError(
                f"{user} was given a directed graph that is not strongly connected: node {sink} never hears of node "
                f"{source}; add links"
            )
