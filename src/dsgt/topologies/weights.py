"""How much: weight matrices for a graph. W[i, j] is the weight node i gives to what it hears from node j."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np


def metropolis(graph: nx.Graph[int]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """W[i, j] = 1 / (1 + max(d_i, d_j)): symmetric, doubly stochastic, known from the degrees of two neighbours."""
    W = np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        W[i, j] = W[j, i] = 1 / (1 + max(graph.degree[i], graph.degree[j]))
    return W + np.diag(1 - W.sum(axis=1))


def averaging(n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """W = 11'/n: everyone hears everyone."""
    return np.full((n, n), 1 / n)
