"""The Schur complement of a step of the interior-point method: the matrix H that its weights' step solves with.

H_ef = sum_k (a_e' X_k a_f) (a_e' S_k^-1 a_f), plus, for a Markov chain, the ratios z / t of its slacks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dsgt.topologies.fastest.problem import SIGNS, Problem

BLOCK = 256
"""Rows of H computed at a time, so that the temporaries stay in the cache."""


@dataclass(frozen=True)
class Schur:
    """Solves [[H, h], [h', g]] [dw, ds] = [a, b] with H factored and s eliminated."""

    factor: Tensor
    h: Tensor
    g: float
    Hh: Tensor

    @classmethod
    def of(cls, problem: Problem, X: Tensor, inverse: Tensor, ratio: Tensor) -> Schur:
        XS = X @ inverse
        h = problem.forms((SIGNS * XS).sum(dim=0))
        factor = torch.linalg.cholesky(matrix(problem, X, inverse, ratio))
        return cls(factor, h, float(XS.diagonal(dim1=1, dim2=2).sum()), _solve(factor, h))

    def solve(self, a: Tensor, b: float) -> tuple[Tensor, float]:
        Ha = _solve(self.factor, a)
        ds = (b - float(self.h @ Ha)) / (self.g - float(self.h @ self.Hh))
        return Ha - ds * self.Hh, ds


def _solve(factor: Tensor, a: Tensor) -> Tensor:
    return torch.cholesky_solve(a[:, None], factor)[:, 0]


def matrix(problem: Problem, X: Tensor, inverse: Tensor, ratio: Tensor) -> Tensor:
    """The lower triangle of H; above the diagonal blocks it is left zero, for a factorisation that never looks."""
    i, j, E = problem.i, problem.j, problem.edges
    H = X.new_zeros(E, E)
    pairs = [tuple((M[i] - M[j]).T.contiguous() for M in both) for both in zip(X, inverse, strict=True)]
    for start in range(0, E, BLOCK):
        stop = min(start + BLOCK, E)
        ib, jb = i[start:stop], j[start:stop]
        block = H[start:stop, :stop]
        for A, B in pairs:
            A, B = A[:, :stop], B[:, :stop]
            block.addcmul_(A[ib] - A[jb], B[ib] - B[jb])
    if problem.nonnegative:
        _add_slacks(problem, H, ratio)
    # A relative ridge at rounding level keeps the factorisation alive where the optimal weights are not unique.
    H.diagonal().mul_(1 + 1e-13)
    return H


def _add_slacks(problem: Problem, H: Tensor, ratio: Tensor) -> None:
    edge, node = ratio[: problem.edges], ratio[problem.edges :]
    H.diagonal().add_(edge)
    for ends in (problem.i, problem.j):
        for others in (problem.i, problem.j):
            H.add_((ends[:, None] == others[None, :]) * node[ends][:, None])
