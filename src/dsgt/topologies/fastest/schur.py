"""The Newton step's linear system: its matrix H factored, or, where that costs more, conjugate gradients with it.

H_ef = sum_k (a_e' X_k a_f) (a_e' S_k^-1 a_f), plus, for a Markov chain, the ratios z / t of its slacks. As a matrix it
costs edges^2 by indexing and edges^3 / 3 to factor. Its product with v is a_e' X_k L(v) S_k^-1 a_e, O(n^3): where the
graph has many more edges than nodes, dozens of conjugate-gradient steps are cheaper than the factor.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from dsgt.topologies.fastest.problem import SIGNS, Problem
from dsgt.topologies.fastest.threads import threads

BLOCK = 256
"""Rows of H computed at a time, so that the temporaries stay in the cache."""
FACTOR_MOST = 16_000
"""With more edges H would take over 2 GB."""
ENOUGH = {False: 1e-2, True: 1e-3}
"""The relative residual at which conjugate gradients stop: a Newton step far from the optimum needs no more. With
nonnegative weights two digits are too few: the multipliers of the slacks then stay infeasible, and the bound poor."""


@dataclass(frozen=True)
class System:
    """[[H, h], [h', g]] [dw, ds] = [a, b]."""

    problem: Problem
    X: Tensor
    inverse: Tensor
    """S^-1"""
    ratio: Tensor
    """z / t"""


class TooSlowError(Exception):
    """Conjugate gradients took more steps than factoring H would have cost."""


class Solve:
    """Solves one system for several right-hand sides, eliminating s; by the factor of H, or by gradients."""

    def __init__(self, system: System, *, factor: bool) -> None:
        XS = system.X @ system.inverse
        self.h = system.problem.forms((SIGNS * XS).sum(dim=0))
        self.g = float(XS.diagonal(dim1=1, dim2=2).sum())
        self.H = Factor(system) if factor else Gradients(system)
        self.Hh = self.H(self.h)

    def __call__(self, a: Tensor, b: float) -> tuple[Tensor, float]:
        Ha = self.H(a)
        ds = (b - float(self.h @ Ha)) / (self.g - float(self.h @ self.Hh))
        return Ha - ds * self.Hh, ds


def affordable(problem: Problem) -> int:
    """How many conjugate-gradient steps cost as much as factoring H; 0 where that is too few to try."""
    if problem.edges > FACTOR_MOST:
        return 1000
    steps = problem.edges**3 // (4 * problem.n**3)
    return steps if problem.edges > 2000 and steps > 100 else 0


class Factor:
    """u = H^-1 a by the Cholesky factor of H."""

    def __init__(self, system: System) -> None:
        with threads(system.problem.cores if system.problem.edges > 2000 else 1):
            self.root = torch.linalg.cholesky(matrix(system))

    def __call__(self, a: Tensor) -> Tensor:
        return torch.cholesky_solve(a[:, None], self.root)[:, 0]


def matrix(system: System) -> Tensor:
    """The lower triangle of H; above the diagonal blocks it is left zero, for a factorisation that never looks."""
    problem, ratio = system.problem, system.ratio
    i, j, E = problem.i, problem.j, problem.edges
    H = system.X.new_zeros(E, E)
    pairs = [[(M[i] - M[j]).T.contiguous() for M in both] for both in zip(system.X, system.inverse, strict=True)]
    for start in range(0, E, BLOCK):
        stop = min(start + BLOCK, E)
        ib, jb = i[start:stop], j[start:stop]
        block = H[start:stop, :stop]
        for A, B in pairs:
            block.addcmul_(A[ib, :stop] - A[jb, :stop], B[ib, :stop] - B[jb, :stop])
        if problem.nonnegative:
            for end in (ib, jb):
                shared = (end[:, None] == i[:stop]) | (end[:, None] == j[:stop])
                block.add_(shared * ratio[E:][end][:, None])
    if problem.nonnegative:
        H.diagonal().add_(ratio[:E])
    # A relative ridge at rounding level keeps the factorisation alive where the optimal weights are not unique.
    H.diagonal().mul_(1 + 1e-13)
    return H


class Gradients:
    """u = H^-1 a to two digits or three, by conjugate gradients preconditioned with the diagonal of H.

    The products are in float32: their error is far below these digits, and they cost half.
    """

    def __init__(self, system: System) -> None:
        self.problem, self.ratio = system.problem, system.ratio
        self.most = affordable(system.problem)
        self.X, self.inverse = system.X.float(), system.inverse.float()
        forms = self.problem.forms
        self.diagonal = forms(system.X[0]) * forms(system.inverse[0]) + forms(system.X[1]) * forms(system.inverse[1])
        if self.problem.nonnegative:
            at_edge, at_node = self.ratio[: self.problem.edges], self.ratio[self.problem.edges :]
            self.diagonal += at_edge + at_node[self.problem.i] + at_node[self.problem.j]

    def product(self, v: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse")
            L = self.problem.laplacian(v.float()).to_sparse_csr()
        T = (self.X[0] @ (L @ self.inverse[0])).addmm_(self.X[1], L @ self.inverse[1])
        Hv = self.problem.forms(T).double()
        return Hv + self.problem.slacks_adjoint(self.ratio * self.problem.slacks_change(v))

    def __call__(self, a: Tensor) -> Tensor:
        u, r = torch.zeros_like(a), a.clone()
        z = r / self.diagonal
        direction, size = z, float(r @ z)
        stop = ENOUGH[self.problem.nonnegative] ** 2 * size
        for _ in range(self.most):
            if size <= stop:
                return u
            Hd = self.product(direction)
            length = size / float(direction @ Hd)
            u, r = u + length * direction, r - length * Hd
            z = r / self.diagonal
            size, before = float(r @ z), size
            direction = z + size / before * direction
        if self.problem.edges > FACTOR_MOST:
            return u
        raise TooSlowError
