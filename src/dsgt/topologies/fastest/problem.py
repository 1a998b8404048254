"""The semidefinite program behind the fastest weights, in the symbols every file of this folder uses.

A weight w_e on each edge e = {i, j}, with a_e = unit_i - unit_j, gives W = I - L with L(w) = sum_e w_e a_e a_e'.
With K = I - 11'/n the fastest weights solve

    minimise s   subject to   S_1 = s I + (L - K) >= 0,   S_2 = s I - (L - K) >= 0,

and, for a Markov chain (FMMC) only, w >= 0 and 1 - (sum of the weights at a node) >= 0. The multipliers X_1, X_2, z, y
of these constraints satisfy, at the optimum, tr X_1 + tr X_2 = 1 and a_e'(X_1 - X_2) a_e + z_e - y_i - y_j = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse

Array = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.intp]]

SIGNS = np.array([1.0, -1.0])[:, None, None]


@dataclass(frozen=True)
class Problem:
    """A graph as its edge ends, and whether the weights must be those of a Markov chain."""

    n: int
    i: Index
    j: Index
    nonnegative: bool

    @classmethod
    def of(cls, graph: nx.Graph[int], *, nonnegative: bool) -> Problem:
        # Sorted, so that the arithmetic does not depend on the order in which the edges were added.
        ends = np.array(sorted((min(e), max(e)) for e in graph.edges), dtype=np.intp).reshape(-1, 2)
        return cls(len(graph), ends[:, 0].copy(), ends[:, 1].copy(), nonnegative)

    @property
    def edges(self) -> int:
        return len(self.i)

    @cached_property
    def ends(self) -> scipy.sparse.csr_array:
        """The n x E matrix with a 1 at both ends of every edge: ``ends @ w`` is the weight at each node."""
        columns = np.arange(self.edges)
        entries = (np.ones(2 * self.edges), (np.concatenate([self.i, self.j]), np.concatenate([columns, columns])))
        return scipy.sparse.csr_array(scipy.sparse.coo_array(entries, shape=(self.n, self.edges)))

    def laplacian(self, w: Array) -> Array:
        """L(w), dense."""
        L = np.zeros((self.n, self.n))
        L[self.i, self.j] = L[self.j, self.i] = -w
        L.flat[:: self.n + 1] = self.ends @ w
        return L

    def sparse_laplacian(self, w: Array) -> scipy.sparse.csr_array:
        rows = np.concatenate([self.i, self.j, np.arange(self.n)])
        columns = np.concatenate([self.j, self.i, np.arange(self.n)])
        entries = (np.concatenate([-w, -w, self.ends @ w]), (rows, columns))
        return scipy.sparse.csr_array(scipy.sparse.coo_array(entries, shape=(self.n, self.n)))

    def forms(self, M: Array) -> Array:
        """a_e' M a_e for every edge; M may be a stack of matrices, and need not be symmetric."""
        d = np.diagonal(M, axis1=-2, axis2=-1)
        i, j = self.i, self.j
        return np.asarray(d[..., i] + d[..., j] - M[..., i, j] - M[..., j, i])

    def slacks(self, w: Array) -> Array:
        """What must be nonnegative in a Markov chain: the weights, and the weight each node keeps for itself."""
        return np.concatenate([w, 1 - self.ends @ w])

    def slacks_gradient(self, z: Array) -> Array:
        """The adjoint of the linear part of ``slacks``."""
        return np.asarray(z[: self.edges] - z[self.edges :][self.i] - z[self.edges :][self.j])
