"""Graphs and weights in files: JSON and npz both ways; GraphML, edge lists and adjacency matrices for graphs.

JSON: {"nodes": n, "directed": false, "edges": [[i, j], ...], "W": [[i, j, weight], ...]}, where W is optional.
npz: the same in arrays ``nodes``, ``directed``, ``edges``, and W as ``rows``, ``columns``, ``values``.
An edge list (.edges, .txt) has a line "i j" per edge. An adjacency matrix (.adj, .csv, .npy) has the layout of W: its
entry [i, j] is nonzero where i hears j.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from dsgt.core import Matrix
from dsgt.late import nx
from dsgt.topologies.assemble import from_entries
from dsgt.topologies.check import graph_of_numbers
from dsgt.topologies.matrix import MatrixLike, as_matrix

NODES_WITHOUT_EDGES = 100_000
"""More nodes than this are read only where there are edges to join them."""

UNPACKED_LIMIT = 1 << 28
"""Bytes that the arrays of an npz file may have when they are unpacked: a network of millions of links."""


@dataclass(frozen=True)
class Stored:
    """What a file holds: a graph, and weights where it has them."""

    graph: nx.Graph[int]
    W: Matrix | None


def read_network(path: str | Path) -> Stored:
    """The graph in a file, by the ending of its name, and the weights if there are any."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; a network file ends in {', '.join(READERS)}")
    if path.suffix not in READERS:
        raise ValueError(f"{path.name} ends in {path.suffix!r}, but a network file ends in {', '.join(READERS)}")
    try:
        stored = READERS[path.suffix](path)
    except Exception as error:  # every reader has its own, and all of them mean the same
        raise ValueError(f"{path.name} is not a graph in the format of its ending {path.suffix}: {error}") from error
    graph_of_numbers(stored.graph, path.name)
    if stored.W is not None and stored.W.shape[0] != len(stored.graph):
        raise ValueError(f"{path.name} has weights for {stored.W.shape[0]} nodes and a graph of {len(stored.graph)}")
    return stored


def write_network(path: str | Path, graph: nx.Graph[int], W: MatrixLike | None = None) -> None:
    """The graph and its weights as JSON or npz, or the graph alone as GraphML or an edge list."""
    path = Path(path)
    graph_of_numbers(graph, "write_network")
    if path.suffix not in (".json", ".npz", ".graphml", ".edges", ".txt"):
        raise ValueError(
            f"{path.name} ends in {path.suffix!r}, but a network is written to .json, .npz, .graphml or .edges"
        )
    if path.suffix in (".graphml", ".edges", ".txt"):
        if W is not None:
            raise ValueError(f"{path.name} cannot hold weights; write them to .json or .npz")
        if path.suffix == ".graphml":
            nx.write_graphml(from_edges(graph.edges, nodes=len(graph), directed=graph.is_directed()), path)
        else:
            path.write_text("".join(f"{i} {j}\n" for i, j in graph.edges))
        return
    edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
    fields: dict[str, Any] = {"nodes": len(graph), "directed": graph.is_directed(), "edges": edges}
    entries = None if W is None else scipy.sparse.coo_array(as_matrix(W))
    if path.suffix == ".npz":
        if entries is not None:
            fields |= {"rows": entries.coords[0], "columns": entries.coords[1], "values": entries.data}
        np.savez_compressed(path, **fields)
        return
    fields["edges"] = edges.tolist()
    if entries is not None:
        triples = zip(*(a.tolist() for a in (*entries.coords, entries.data)), strict=True)
        fields["W"] = [list(triple) for triple in triples]
    path.write_text(json.dumps(fields) + "\n")


def from_edges(edges: Any, *, nodes: int | None = None, directed: bool = False) -> nx.Graph[int]:
    """A graph from pairs (i, j); in a directed one i is heard by j."""
    pairs = [(int(i), int(j)) for i, j in edges]
    count = 1 + max((max(pair) for pair in pairs), default=-1) if nodes is None else nodes
    graph: nx.Graph[int] = nx.empty_graph(count, create_using=nx.DiGraph if directed else nx.Graph)
    graph.add_edges_from(pairs)
    graph_of_numbers(graph, "from_edges")
    return graph


def from_adjacency(A: MatrixLike) -> nx.Graph[int]:
    """A graph from a matrix whose entry [i, j] is nonzero where i hears j; undirected where the matrix is symmetric.

    The diagonal is not looked at, so a weight matrix may be given too.
    """
    pattern = scipy.sparse.coo_array(as_matrix(A))
    i, j = (c[(pattern.data != 0) & (pattern.coords[0] != pattern.coords[1])] for c in pattern.coords)
    heard = set(zip(j.tolist(), i.tolist(), strict=True))
    both = all((b, a) in heard for a, b in heard)
    return from_edges(sorted(heard), nodes=pattern.shape[0], directed=not both)


def _bounded(nodes: int, edges: int) -> int:
    """A few bytes must not ask for a graph that fills the memory: so many nodes are never joined by so few edges."""
    if nodes > max(NODES_WITHOUT_EDGES, edges + 1):
        raise ValueError(f"it claims {nodes} nodes, but has {edges} edges")
    return nodes


def _read_json(path: Path) -> Stored:
    fields = json.loads(path.read_text())
    nodes = _bounded(int(fields["nodes"]), len(fields["edges"]))
    graph = from_edges(fields["edges"], nodes=nodes, directed=bool(fields.get("directed", False)))
    if "W" not in fields:
        return Stored(graph, None)
    entries = np.array(fields["W"], dtype=np.float64).reshape(-1, 3)
    W = from_entries(len(graph), entries[:, 0].astype(int), entries[:, 1].astype(int), entries[:, 2])
    return Stored(graph, as_matrix(W))


def _read_npz(path: Path) -> Stored:
    with zipfile.ZipFile(path) as packed:  # a few kilobytes of zeros may unpack to fill the memory
        if (size := sum(entry.file_size for entry in packed.infolist())) > UNPACKED_LIMIT:
            raise ValueError(f"it unpacks to {size} bytes; at most {UNPACKED_LIMIT} are read")
    with np.load(path) as fields:
        edges = fields["edges"].tolist()
        nodes = _bounded(int(fields["nodes"]), len(edges))
        graph = from_edges(edges, nodes=nodes, directed=bool(fields["directed"]))
        if "values" not in fields:
            return Stored(graph, None)
        return Stored(graph, as_matrix(from_entries(len(graph), fields["rows"], fields["columns"], fields["values"])))


def _read_graphml(path: Path) -> Stored:
    """Nodes with numbers for names keep them; others are numbered in the order of the file."""
    raw = nx.read_graphml(path)
    names = {v: int(v) if all(str(u).isdigit() for u in raw.nodes) else k for k, v in enumerate(raw.nodes)}
    edges = [(names[u], names[v]) for u, v in raw.edges()]
    _bounded(1 + max(names.values(), default=-1), len(edges) + len(raw))
    return Stored(from_edges(edges, nodes=len(raw), directed=raw.is_directed()), None)


def _read_edges(path: Path) -> Stored:
    lines = [line.split("#")[0].split() for line in path.read_text().splitlines()]
    edges = [(int(line[0]), int(line[1])) for line in lines if line]
    _bounded(1 + max((max(edge) for edge in edges), default=-1), len(edges))
    return Stored(from_edges(edges), None)


def _read_adjacency(path: Path) -> Stored:
    if path.suffix == ".npy":
        return Stored(from_adjacency(np.load(path)), None)
    text = path.read_text().replace(",", " ").splitlines()
    return Stored(from_adjacency(np.array([[float(v) for v in line.split()] for line in text if line.strip()])), None)


READERS = {
    ".json": _read_json,
    ".npz": _read_npz,
    ".graphml": _read_graphml,
    ".edges": _read_edges,
    ".txt": _read_edges,
    ".adj": _read_adjacency,
    ".csv": _read_adjacency,
    ".npy": _read_adjacency,
}
