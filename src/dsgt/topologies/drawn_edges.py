"""Edges of which every round draws one: how often each, and how far a step over it may go (ESDACD, ADFS).

With the incidence matrix A, whose column e is e_i - e_j for the edge {i, j}, R_e = (A^+ A)_ee is the resistance between
the two ends of an edge where every edge is a wire of resistance 1: 1 for an edge that nothing else goes around, 2/n in
a complete graph. Their sum is n - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsgt.core import Local, Network
from dsgt.oracles.virtual_nodes import Steps
from dsgt.topologies.random_weights import Pairs

Array = np.ndarray[Any, np.dtype[Any]]


def resistances(n: int, edges: Array) -> Array:
    """R_e of every edge, (E,), of a connected graph of n nodes with these edges, (E, 2)."""
    inverse = np.linalg.pinv(_laplacian(n, edges), hermitian=True)
    i, j = edges.T
    found: Array = inverse[i, i] + inverse[j, j] - 2 * inverse[i, j]
    return found


def stiffness(n: int, edges: Array, masses: Array | float = 1.0) -> float:
    """The lowest nonzero eigenvalue of A' diag(1/masses) A; for masses 1 that of the Laplacian A A'."""
    root = np.sqrt(np.broadcast_to(masses, n))
    return float(np.linalg.eigvalsh(_laplacian(n, edges) / root[:, None] / root)[1])


def _laplacian(n: int, edges: Array) -> Array:
    found = np.zeros((n, n))
    for i, j in edges:
        found[[i, j], [i, j]] += 1
        found[[i, j], [j, i]] -= 1
    return found


def pairs_of(network: Network, seed: int, probabilities: Sequence[float] | None = None) -> Pairs:
    """One edge of this network a round."""
    return Pairs(network.weights.matrices[0], seed=seed, probabilities=probabilities)


@dataclass(frozen=True, eq=False)
class DrawnEdges:
    """The edge e = {i, j} with probability p_e, and the largest steps over it that are known to converge, for functions
    of strong convexity mu_i and smoothness L_i:

        rho = min_e p_e sqrt(sigma / ((1/mu_i + 1/mu_j) R_e)),   sigma = lambda_min+(A' diag(1/L_i) A)

    p_e is proportional to sqrt((1/mu_i + 1/mu_j) R_e), which makes rho largest."""

    pairs: Pairs
    rho: float
    sigma: float
    R: Array
    p: Array

    @classmethod
    def of(cls, network: Network, f: Local, seed: int) -> DrawnEdges:
        """All nodes ask at once, each with what it knows of its own function."""
        mu, L = (network.gather(t).double().cpu().numpy()[:, 0] for t in (f.convexity(), f.smoothness(1)))
        if not (mu > 0).all():
            raise ValueError(
                f"ESDACD needs strongly convex functions at all nodes, but that of node {int(mu.argmin())} is not: use "
                "l2 (weight_decay) above 0, or a method that asks for gradients"
            )
        edges = pairs_of(network, seed).edges
        sigma, R = stiffness(network.nodes, edges, L + f.penalty()), resistances(network.nodes, edges)
        root = np.sqrt((1 / mu)[edges].sum(axis=1) * R)
        p = root / root.sum()
        return cls(pairs_of(network, seed, p.tolist()), float((p / root).min() * np.sqrt(sigma)), sigma, R, p)

    def at(self, k: int) -> tuple[float, float, float]:
        """rho; rho / (sigma p_e), twice, since the two ends move by half of their difference; and rho R_e / p_e."""
        e = self.pairs.edge(k)
        assert e is not None
        return self.rho, 2 * self.rho / (self.sigma * self.p[e]), self.rho * self.R[e] / self.p[e]


@dataclass(frozen=True, eq=False)
class DrawnParts:
    """An edge, any as often as any other, or one of the q parts of a node's samples: see ``oracles.virtual_nodes``."""

    pairs: Pairs
    steps: Steps
    R: Array

    @classmethod
    def of(cls, network: Network, f: Local, q: int, seed: int) -> DrawnParts:
        """All nodes ask at once, each with what it knows of its own function."""
        c, L = f.penalty(), network.gather(f.smoothness(q)).double().cpu().numpy() / q
        if not c > 0:
            raise ValueError(
                f"ADFS needs functions with a penalty, since that is what its nodes keep of them, but l2 is {c:g}: use "
                "l2 (weight_decay) above 0, or a method that asks for gradients"
            )
        edges = pairs_of(network, seed).edges
        R = resistances(network.nodes, edges)
        L = L.clip(min=1e-6 * c)  # a part may be empty of information
        steps = Steps.of(c, L, stiffness(network.nodes, edges), len(edges), float(R.max()), seed)
        each = (1 - float(steps.p.sum())) / len(edges)
        return cls(pairs_of(network, seed, [each] * len(edges)), steps, R)

    @property
    def c(self) -> float:
        return self.steps.c

    def at(self, k: int) -> tuple[float, float, float]:
        """rho; twice rho / (sigma P) for an edge, 0 for a part; and rho R / P, where R is 1 for a part."""
        e, s = self.pairs.edge(k), self.steps
        if e is None:
            return s.rho, 0.0, s.rho / s.p[s.part(k)]
        P = (1 - s.p.sum()) / len(self.R)
        return s.rho, 2 * s.rho / (s.sigma * P), s.rho * self.R[e] / P
