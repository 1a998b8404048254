"""A primal-dual interior-point method (Mehrotra's predictor-corrector, HKM direction) for the fastest weights.

The constraint matrices have rank one, so the matrix of a Newton step is O(edges^2) work by indexing (``schur.py``).
S follows from the weights, so it is always feasible; X becomes feasible on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from dsgt.topologies.fastest.problem import SIGNS, Problem
from dsgt.topologies.fastest.schur import Schur

STEP = 0.98
"""How far towards the boundary of the cone a step may go."""


@dataclass(frozen=True)
class Point:
    """The weights w and the level s; the multipliers X of the two cones and z of the nonnegative slacks."""

    w: Tensor
    s: float
    X: Tensor
    z: Tensor

    def moved(self, step: Step, primal: float, dual: float) -> Point:
        w, s = self.w + primal * step.w, self.s + primal * step.s
        return Point(w, s, self.X + dual * step.X, self.z + dual * step.z)


@dataclass(frozen=True)
class Step:
    w: Tensor
    s: float
    S: Tensor
    X: Tensor
    t: Tensor
    z: Tensor


def cones(problem: Problem, w: Tensor, s: float) -> Tensor:
    """S_1 and S_2, stacked."""
    S = SIGNS * problem.centred(w)
    S.diagonal(dim1=1, dim2=2).add_(s)
    return S


def first(problem: Problem, w: Tensor, s: float) -> Point:
    """The centred multipliers of a strictly feasible (w, s), scaled to satisfy tr X_1 + tr X_2 = 1."""
    inverse = torch.linalg.inv(cones(problem, w, s))
    mu = 1 / float(inverse.diagonal(dim1=1, dim2=2).sum())
    return Point(w, s, mu * inverse, mu / problem.slacks(w))


def iterates(problem: Problem, at: Point) -> Iterator[tuple[Point, float]]:
    """Better and better points, each with the duality gap it would have were its multipliers feasible.

    Ends, without an error, where rounding allows no further step.
    """
    while True:
        S, t = cones(problem, at.w, at.s), problem.slacks(at.w)
        gap = float((at.X * S).sum() + at.z @ t)
        yield at, gap
        try:
            roots = torch.linalg.cholesky(S), torch.linalg.cholesky(at.X)
            inverse = torch.cholesky_inverse(roots[0])
            schur = Schur.of(problem, at.X, inverse, at.z / t)
        except torch.linalg.LinAlgError:
            return
        affine = _step(problem, schur, at, inverse, t, 0.0, None)
        primal, dual = min(1.0, _reach(roots[0], affine.S, t, affine.t)), min(1.0, _reach(roots[1], affine.X, at.z, affine.z))
        X, z = at.X + dual * affine.X, at.z + dual * affine.z
        reached = float((X * (S + primal * affine.S)).sum() + z @ (t + primal * affine.t))
        sigma = min(1.0, max(reached, 0.0) / gap) ** 2
        step = _step(problem, schur, at, inverse, t, sigma * gap / (2 * problem.n + len(t)), affine)
        primal, dual = _reach(roots[0], step.S, t, step.t), _reach(roots[1], step.X, at.z, step.z)
        at = at.moved(step, min(1.0, STEP * primal), min(1.0, STEP * dual))


def _step(
    problem: Problem, schur: Schur, at: Point, inverse: Tensor, t: Tensor, mu: float, affine: Step | None
) -> Step:
    """The Newton step towards X S = mu I, z t = mu; with Mehrotra's second-order term where affine is given."""
    X, z = mu * inverse, mu / t
    if affine is not None:
        X = X - _symmetric(affine.X @ affine.S @ inverse)
        z = z - affine.z * affine.t / t
    pull = problem.forms((SIGNS * X).sum(dim=0)) + problem.slacks_adjoint(z)
    dw, ds = schur.solve(pull, float(X.diagonal(dim1=1, dim2=2).sum()) - 1)
    dS = SIGNS * problem.laplacian(dw)
    dS.diagonal(dim1=1, dim2=2).add_(ds)
    dt = problem.slacks_change(dw)
    dX = X - at.X - _symmetric(at.X @ dS @ inverse)
    return Step(dw, ds, dS, dX, dt, z - at.z - at.z * dt / t)


def _symmetric(M: Tensor) -> Tensor:
    return (M + M.transpose(1, 2)) / 2


def _reach(root: Tensor, direction: Tensor, t: Tensor, dt: Tensor) -> float:
    """How many times the direction may be added before root root' or t stops being positive."""
    half = torch.linalg.solve_triangular(root, direction, upper=False)
    scaled = torch.linalg.solve_triangular(root, half.transpose(1, 2), upper=False)
    lowest = float(torch.linalg.eigvalsh(_symmetric(scaled)).amin())
    if len(t):
        lowest = min(lowest, float((dt / t).min()))
    return 1 / max(-lowest, 1e-300)
