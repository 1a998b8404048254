"""A primal-dual interior-point method (Mehrotra's predictor-corrector, HKM direction) for the fastest weights.

S follows from the weights, so it is always feasible; X becomes feasible on the way. What one step costs, and how its
linear system is solved, is the subject of ``schur.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined] # its stub does not say so, its docs do

from dsgt.topologies.fastest.problem import SIGNS, Problem
from dsgt.topologies.fastest.schur import Solve, System, TooSlowError, affordable


@dataclass(frozen=True)
class Point:
    """The weights w and the level s; the multipliers X of the two cones and z of the nonnegative slacks."""

    w: Tensor
    s: float
    X: Tensor
    z: Tensor


@dataclass(frozen=True)
class Step:
    """A change of a point, and with it of the cones S and the slacks t."""

    w: Tensor
    s: float
    S: Tensor
    X: Tensor
    t: Tensor
    z: Tensor


@dataclass(frozen=True)
class Place:
    """A point with what follows from it: the cones S, the slacks t, S^-1, and the roots of S and X."""

    at: Point
    S: Tensor
    t: Tensor
    inverse: Tensor
    roots: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, problem: Problem, at: Point) -> Place:
        S = cones(problem, at.w, at.s)
        roots = torch.linalg.cholesky(S), torch.linalg.cholesky(at.X)
        return cls(at, S, problem.slacks(at.w), torch.cholesky_inverse(roots[0]), roots)

    @property
    def gap(self) -> float:
        return float((self.at.X * self.S).sum() + self.at.z @ self.t)

    def reach(self, step: Step) -> tuple[float, float]:
        """How many times the step may be taken, on either side, before a cone is left."""
        primal, dual = _reach(self.roots[0], step.S), _reach(self.roots[1], step.X)
        if len(self.t):
            primal = min(primal, _inverse(float((step.t / self.t).min())))
            dual = min(dual, _inverse(float((step.z / self.at.z).min())))
        return primal, dual

    def gap_after(self, step: Step, primal: float, dual: float) -> float:
        z = self.at.z + dual * step.z
        return float(((self.at.X + dual * step.X) * (self.S + primal * step.S)).sum() + z @ (self.t + primal * step.t))


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


def iterates(problem: Problem, at: Point) -> Iterator[tuple[Point, float, bool]]:
    """Better and better points, each with the duality gap it would have were its multipliers feasible.

    Where rounding allows no further step the last point comes once more, and the flag says so.
    """
    factor = affordable(problem) == 0
    good, gap = at, math.inf
    while True:
        try:
            place = Place.of(problem, at)
            good, gap = at, place.gap
            yield at, gap, False
            try:
                at = _next(problem, place, factor)
            except TooSlowError:
                factor = True
                at = _next(problem, place, factor)
        except LinAlgError:
            yield good, gap, True
            return


def _next(problem: Problem, place: Place, factor: bool) -> Point:
    at, gap = place.at, place.gap
    solve = Solve(System(problem, at.X, place.inverse, at.z / place.t), factor=factor)
    affine = _step(problem, solve, place, 0.0, None)
    primal, dual = (min(1.0, reach) for reach in place.reach(affine))
    sigma = min(1.0, max(place.gap_after(affine, primal, dual), 0.0) / gap) ** 2
    # Close to the boundary only where the prediction was good: a point that hugs it cannot move next time.
    share = 0.9 + 0.08 * min(primal, dual)
    step = _step(problem, solve, place, sigma * gap / (2 * problem.n + len(place.t)), affine)
    primal, dual = (min(1.0, share * reach) for reach in place.reach(step))
    return Point(at.w + primal * step.w, at.s + primal * step.s, at.X + dual * step.X, at.z + dual * step.z)


def _step(problem: Problem, solve: Solve, place: Place, mu: float, affine: Step | None) -> Step:
    """The Newton step towards X S = mu I, z t = mu; with Mehrotra's second-order term where affine is given."""
    at, inverse, t = place.at, place.inverse, place.t
    X, z = mu * inverse, mu / t
    if affine is not None:
        X = X - _symmetric(affine.X @ affine.S @ inverse)
        z = z - affine.z * affine.t / t
    pull = problem.forms((SIGNS * X).sum(dim=0)) + problem.slacks_adjoint(z)
    dw, ds = solve(pull, float(X.diagonal(dim1=1, dim2=2).sum()) - 1)
    dS = SIGNS * problem.laplacian(dw)
    dS.diagonal(dim1=1, dim2=2).add_(ds)
    dt = problem.slacks_change(dw)
    dX = X - at.X - _symmetric(at.X @ dS @ inverse)
    return Step(dw, ds, dS, dX, dt, z - at.z - at.z * dt / t)


def _symmetric(M: Tensor) -> Tensor:
    return (M + M.transpose(1, 2)) / 2


def _reach(root: Tensor, direction: Tensor) -> float:
    half = torch.linalg.solve_triangular(root, direction, upper=False)
    scaled = torch.linalg.solve_triangular(root, half.transpose(1, 2), upper=False)
    return _inverse(float(torch.linalg.eigvalsh(_symmetric(scaled)).amin()))


def _inverse(lowest: float) -> float:
    return 1 / max(-lowest, 1e-300)
