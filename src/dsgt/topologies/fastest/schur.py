"""The Schur complement of a step of the interior-point method, as a matrix or as its product with a vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dsgt.topologies.fastest.problem import SIGNS, Array, Problem

BLOCK = 512


@dataclass(frozen=True)
class Schur:
    """Solves [[H, h], [h', hs]] [dw, ds] = [a, b]; H is factored, s is eliminated."""

    factor: tuple[Array, bool]
    h: Array
    hs: float
    Hh: Array

    @classmethod
    def of(cls, problem: Problem, X: Array, inverse: Array, z: Array, t: Array) -> Schur:
        H = matrix(problem, X, inverse)
        if problem.nonnegative:
            ratio = z / t
            H.flat[:: problem.edges + 1] += ratio[: problem.edges]
            at_nodes = problem.ends.T @ (problem.ends * ratio[problem.edges :, None])
            H += at_nodes.toarray()
        XS = X @ inverse
        h = problem.forms((SIGNS * XS).sum(axis=0))
        H.flat[:: problem.edges + 1] *= 1 + 1e-14
        factor = scipy.linalg.cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
        Hh = scipy.linalg.cho_solve(factor, h, check_finite=False)
        return cls(factor, h, float(XS.trace(axis1=1, axis2=2).sum()), Hh)

    def solve(self, a: Array, b: float) -> tuple[Array, float]:
        Ha = scipy.linalg.cho_solve(self.factor, a, check_finite=False)
        ds = (b - float(self.h @ Ha)) / (self.hs - float(self.h @ self.Hh))
        return Ha - ds * self.Hh, ds


def matrix(problem: Problem, X: Array, inverse: Array) -> Array:
    """The lower triangle of H (what lies above the diagonal blocks is zero)."""
    i, j = problem.i, problem.j
    H = np.zeros((problem.edges, problem.edges))
    pairs = [(np.ascontiguousarray((A[i] - A[j]).T), np.ascontiguousarray((B[i] - B[j]).T)) for A, B in zip(X, inverse)]
    for start in range(0, problem.edges, BLOCK):
        stop = min(start + BLOCK, problem.edges)
        rows, columns = slice(start, stop), slice(0, stop)
        for A, B in pairs:
            H[rows, columns] += (A[i[rows], columns] - A[j[rows], columns]) * (B[i[rows], columns] - B[j[rows], columns])
    return H
