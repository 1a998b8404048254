"""The table of methods that the tests run over, and the problem they run on. A new method adds one row to CASES."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor

import dsgt
from dsgt import randomness
from dsgt.core import Algorithm
from dsgt.topologies.weights import averaging, metropolis

F64 = torch.float64
Weights = Callable[[nx.Graph], np.ndarray]


def lazy(graph: nx.Graph) -> np.ndarray:
    """(I + W)/2: no negative eigenvalue, so D² may use it."""
    return (np.eye(len(graph)) + metropolis(graph)) / 2


def average(graph: nx.Graph) -> np.ndarray:
    return averaging(len(graph))


def push(graph: nx.Graph) -> np.ndarray:
    """Column stochastic and unbalanced: one edge is a one-way street, and every node tells equal shares."""
    directed = graph.to_directed()
    for edge in graph.edges:
        directed.remove_edge(*edge)
        if nx.is_strongly_connected(directed):
            break
        directed.add_edge(*edge)
    W = nx.to_numpy_array(directed, nodelist=range(len(graph))).T + np.eye(len(graph))
    return W / W.sum(axis=0)


@dataclass(frozen=True)
class Case:
    algorithm: Algorithm[Any]
    weights: Weights = metropolis
    atc: bool = False
    """With W = 11'/n and equal starts it is centralized SGD, step by step."""
    tracked: tuple[str, str] | None = None
    """Two fields of the state whose means over the nodes are equal after every round."""
    zero_sum: str | None = None
    """A field of the state whose sum over the nodes stays zero."""
    limit: Callable[[float], float] | None = None
    """lambda_n -> the lr L at which it stops converging on quadratics (ALGORITHMS, section 2)."""


CASES: dict[str, Case] = {
    "sgd": Case(dsgt.SGD(), average, atc=True),
    "dpsgd": Case(dsgt.DPSGD(), limit=lambda low: 1 + low),
    "atc-dpsgd": Case(dsgt.AtcDPSGD(), atc=True, limit=lambda low: 2.0),
    "dsgt": Case(
        dsgt.DSGT(),
        atc=True,
        tracked=("Wy", "g"),
        limit=lambda low: min(2.0, (1 - low**2) / -low) if low < 0 else 2.0,
    ),
    "gnsd": Case(dsgt.GNSD(), tracked=("Wy", "g"), limit=lambda low: (1 + low) ** 2 / 2),
    "aug-dgm": Case(
        dsgt.AugDGM(), atc=True, tracked=("y", "g"), limit=lambda low: min(2.0, (1 + low) ** 2 / (2 * low**2))
    ),
    "extra": Case(dsgt.EXTRA(), zero_sum="q", limit=lambda low: (5 + 3 * low) / 4),
    "exact-diffusion": Case(dsgt.ExactDiffusion(), zero_sum="d", limit=lambda low: 2.0),
    "d2": Case(dsgt.D2(), lazy, atc=True, zero_sum="d", limit=lambda low: 2.0),
    "sgp": Case(dsgt.SGP(), push),
}


@dataclass
class Quadratic:
    """Least squares over uneven, different shards, in a few lines that share nothing with dsgt.problems.

    f(x) = mean over all samples of (a'x - b)^2 / 2; node i holds sizes[i] of them.
    """

    A: list[Tensor]
    b: list[Tensor]

    @cached_property
    def H(self) -> Tensor:
        """Every node's weighted curvature, (n, m, m): the gradient is H x - c."""
        return torch.stack([self.weight(i) * A.T @ A / len(A) for i, A in enumerate(self.A)])

    @cached_property
    def c(self) -> Tensor:
        return torch.stack([self.weight(i) * A.T @ self.b[i] / len(A) for i, A in enumerate(self.A)])

    @property
    def sizes(self) -> list[int]:
        return [len(b) for b in self.b]

    @property
    def optimum(self) -> Tensor:
        return torch.linalg.lstsq(torch.cat(self.A), torch.cat(self.b)[:, None]).solution[:, 0]

    @property
    def L(self) -> float:
        """The largest curvature that a node feeds to the network."""
        return torch.linalg.eigvalsh(self.H).max().item()

    def weight(self, i: int) -> float:
        return len(self.A) * self.sizes[i] / sum(self.sizes)

    def node_gradient(self, i: int, x: Tensor, k: int | None = None) -> Tensor:
        """Node i's weighted mean gradient: of all its samples, or of the half that (i, k) picks, with replacement."""
        A, b = self.A[i], self.b[i]
        if k is not None:
            batch = randomness.integers(len(A), 7, i, k, torch.arange(max(1, len(A) // 2)))
            A, b = A[batch], b[batch]
        return self.weight(i) * A.T @ (A @ x - b) / len(A)

    def full(self, x: Tensor, k: int) -> Tensor:
        return (self.H @ x[..., None])[..., 0] - self.c

    def stochastic(self, x: Tensor, k: int) -> Tensor:
        return torch.stack([self.node_gradient(i, row, k) for i, row in enumerate(x)])


def quadratic(n: int, m: int = 5, seed: int = 0) -> Quadratic:
    """Sizes 6, 7, 8, ...; every node's own minimiser lies somewhere else."""
    draw = torch.Generator().manual_seed(seed)
    A = [torch.randn(6 + i, m, dtype=F64, generator=draw) for i in range(n)]
    b = [a @ torch.randn(m, dtype=F64, generator=draw) + i for i, a in enumerate(A)]
    return Quadratic(A, b)


def graph(n: int, seed: int = 1) -> nx.Graph:
    """A connected random graph, neither regular nor complete."""
    if n <= 2:
        return nx.path_graph(n)
    for s in range(seed, seed + 1000):
        g = nx.erdos_renyi_graph(n, min(0.9, 2.2 * np.log(n) / n), seed=s)
        if nx.is_connected(g):
            return g
    raise AssertionError("no connected graph found")
