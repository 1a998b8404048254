"""The semidefinite program behind the fastest weights, in the symbols every file of this folder uses.

A weight w_e on each edge e = {i, j}, with a_e = unit_i - unit_j, gives W = I - L with L(w) = sum_e w_e a_e a_e'.
With K = I - 11'/n the fastest weights solve

    minimise s   subject to   S_1 = s I + (L - K) >= 0,   S_2 = s I - (L - K) >= 0,

and, for a Markov chain (FMMC) only, w >= 0 and 1 - (sum of the weights at a node) >= 0. The multipliers X_1, X_2, z
of these constraints satisfy, at the optimum, tr X_1 + tr X_2 = 1 and a_e'(X_1 - X_2) a_e + z_e - z_i - z_j = 0, where
z_e belongs to the weight of edge e, and z_i to the weight that node i keeps for itself.

Everything here is a float64 torch tensor: going back and forth between the linear algebra of NumPy, SciPy and torch
makes their thread pools fight for the same cores (measured: 20 times slower).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dsgt.late import nx

SIGNS = torch.tensor([1.0, -1.0], dtype=torch.float64)[:, None, None]


@dataclass(frozen=True)
class Problem:
    """A graph as its edge ends i < j, and whether the weights must be those of a Markov chain."""

    n: int
    i: Tensor
    j: Tensor
    nonnegative: bool
    cores: int = 1
    """What the largest factorisations may use."""

    @classmethod
    def of(cls, graph: nx.Graph[int], *, nonnegative: bool) -> Problem:
        # Sorted, so that the arithmetic does not depend on the order in which the edges were added.
        ends = torch.tensor(sorted((min(e), max(e)) for e in graph.edges), dtype=torch.long).reshape(-1, 2)
        return cls(len(graph), ends[:, 0].contiguous(), ends[:, 1].contiguous(), nonnegative, torch.get_num_threads())

    @property
    def edges(self) -> int:
        return len(self.i)

    def at_nodes(self, w: Tensor) -> Tensor:
        """The sum of the weights of the edges at each node."""
        return w.new_zeros(self.n).index_add_(0, self.i, w).index_add_(0, self.j, w)

    def laplacian(self, w: Tensor) -> Tensor:
        """L(w)."""
        L = torch.diag(self.at_nodes(w))
        L[self.i, self.j] = -w
        L[self.j, self.i] = -w
        return L

    def forms(self, M: Tensor) -> Tensor:
        """a_e' M a_e for every edge; M need not be symmetric."""
        d = M.diagonal()
        return d[self.i] + d[self.j] - M[self.i, self.j] - M[self.j, self.i]

    def centred(self, w: Tensor) -> Tensor:
        """L(w) - K = 11'/n - W: what the two cones bound from both sides."""
        M = self.laplacian(w) + 1 / self.n
        M.diagonal().sub_(1)
        return M

    def slacks(self, w: Tensor) -> Tensor:
        """What must stay nonnegative in a Markov chain: the weights, and what each node keeps. Else nothing."""
        return torch.cat([w, 1 - self.at_nodes(w)]) if self.nonnegative else w.new_zeros(0)

    def slacks_change(self, dw: Tensor) -> Tensor:
        return torch.cat([dw, -self.at_nodes(dw)]) if self.nonnegative else dw.new_zeros(0)

    def slacks_adjoint(self, z: Tensor) -> Tensor:
        """The adjoint of ``slacks_change``."""
        if not self.nonnegative:
            return z.new_zeros(self.edges)
        edge, node = z[: self.edges], z[self.edges :]
        return edge - node[self.i] - node[self.j]
