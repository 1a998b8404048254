"""How fast the fastest weights are found: ratios, measured side by side in one run.

    python benchmarks/topologies.py               the table of ratios (minutes: the other solvers are slow)
    python benchmarks/topologies.py --large       1,000 nodes with 10,000 edges to a gap of one percent
    python benchmarks/topologies.py --describe    100,000 nodes

Needs cvxpy; mixingmatrix is compared where it is installed. Times are medians of interleaved runs, so that a busy
machine slows all of them alike; a solver slower than 5 seconds runs once.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import scipy.sparse
from rich.console import Console
from rich.table import Table

from dsgt import topologies

CASES = {
    "24 nodes, 110 edges": nx.gnm_random_graph(24, 110, seed=1),
    "60 nodes, 200 edges": nx.gnm_random_graph(60, 200, seed=1),
    "200 nodes, 4-regular": nx.random_regular_graph(4, 200, seed=1),
    "200 nodes, 1500 edges": nx.gnm_random_graph(200, 1500, seed=1),
}
CLARABEL_MOST = 70
"""Nodes; beyond, it takes minutes."""


def sdp(graph: nx.Graph, **solver: Any) -> float:
    """The textbook program, written on the edge weights: the fast way to say it to cvxpy."""
    n, edges = len(graph), np.array(list(graph.edges))
    i, j, e = edges[:, 0], edges[:, 1], np.arange(len(edges))
    rows = np.concatenate([i * n + i, j * n + j, i * n + j, j * n + i])
    signs = np.repeat([1.0, 1.0, -1.0, -1.0], len(edges))
    L = scipy.sparse.csr_array((signs, (rows, np.tile(e, 4))), shape=(n * n, len(edges)))
    w, s = cp.Variable(len(edges)), cp.Variable()
    M = np.eye(n) - 1 / n - cp.reshape(L @ w, (n, n), order="C")
    cp.Problem(cp.Minimize(s), [M << s * np.eye(n), M >> -s * np.eye(n)]).solve(**solver)
    return float(s.value)


def solvers(graph: nx.Graph) -> dict[str, Callable[[], float]]:
    found: dict[str, Callable[[], float]] = {
        "dsgt": lambda: topologies.fdla(graph, tol=1e-6).rho,
        "SCS": lambda: sdp(graph, solver="SCS", eps=1e-7, max_iters=100_000),
    }
    if len(graph) <= CLARABEL_MOST:
        found["Clarabel"] = lambda: sdp(graph, solver="CLARABEL")
    if importlib.util.find_spec("mixingmatrix"):
        import mixingmatrix

        found["mixingmatrix"] = lambda: mixingmatrix.solve(graph, allow_negative=True).slem
    return found


def ratios(repeats: int) -> None:
    for case, graph in CASES.items():
        table = Table("solver", "seconds", "times dsgt", "rho", title=f"FDLA to 1e-6: {case}")
        runs = solvers(graph)
        times: dict[str, list[float]] = {name: [] for name in runs}
        values = {}
        for turn in range(repeats):
            for name, run in runs.items():
                if turn and times[name][0] > 5:
                    continue
                begin = time.perf_counter()
                values[name] = run()
                times[name].append(time.perf_counter() - begin)
        ours = statistics.median(times["dsgt"])
        for name, taken in times.items():
            median = statistics.median(taken)
            table.add_row(name, f"{median:.3f}", f"{median / ours:.1f}", f"{values[name]:.8f}")
        Console().print(table)


def peak() -> float:
    """The most memory this process has used, in GB (Linux counts in KB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def large() -> None:
    graph = nx.gnm_random_graph(1000, 10_000, seed=1)
    begin = time.perf_counter()
    found = topologies.fdla(graph, tol=4e-3)
    print(f"1000 nodes, 10000 edges: {time.perf_counter() - begin:.0f} s, {peak():.1f} GB at most")
    print(f"rho {found.rho:.5f}, at least {found.lower_bound:.5f}: a gap of {100 * found.gap / found.rho:.2f} %")


def describe() -> None:
    for name, graph in (("ring", topologies.ring(100_000)), ("4-regular", topologies.random_regular(100_000))):
        W = topologies.metropolis(graph)
        begin = time.perf_counter()
        found = topologies.describe(W)
        seconds = time.perf_counter() - begin
        print(f"describe, {name} of 100000 nodes: {seconds:.1f} s, {peak():.1f} GB, 1 - rho = {found.gap:.4g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--describe", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.large:
        large()
    if options.describe:
        describe()
    if not (options.large or options.describe):
        topologies.fdla(topologies.ring(8))  # the first call loads libraries
        ratios(options.repeats)


if __name__ == "__main__":
    main()
