"""A primal-dual interior-point method (Mehrotra's predictor-corrector, HKM direction) for the fastest weights.

The constraint matrices have rank one, so the Schur complement of a step is O(edges^2) work by indexing:

    H_ef = sum_k (a_e' X_k a_f) (a_e' S_k^-1 a_f),

and its product with a vector is O(n edges) work, which conjugate gradients use where H is too large to factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dsgt.topologies.fastest.problem import SIGNS, Array, Problem
from dsgt.topologies.fastest.schur import Schur

STEP = 0.98
"""How far towards the boundary of the cone a step may go."""


@dataclass(frozen=True)
class Point:
    """The weights w and the level s; the multipliers X of the two cones and z of the nonnegative slacks."""

    w: Array
    s: float
    X: Array
    z: Array


@dataclass(frozen=True)
class Step:
    w: Array
    s: float
    S: Array
    X: Array
    t: Array
    z: Array


def cones(problem: Problem, w: Array, s: float) -> Array:
    """S_1 and S_2, stacked."""
    M = problem.laplacian(w) + 1 / problem.n
    M.flat[:: problem.n + 1] -= 1
    S: Array = SIGNS * M
    S[:, range(problem.n), range(problem.n)] += s
    return S


def slacks(problem: Problem, w: Array) -> Array:
    return problem.slacks(w) if problem.nonnegative else np.zeros(0)


def first(problem: Problem, w: Array, s: float) -> Point:
    """The centred multipliers of a strictly feasible (w, s), scaled to satisfy tr X_1 + tr X_2 = 1."""
    inverse = np.linalg.inv(cones(problem, w, s))
    mu = 1 / float(inverse.trace(axis1=1, axis2=2).sum())
    return Point(w, s, mu * inverse, mu / slacks(problem, w))


def iterates(problem: Problem, point: Point) -> Iterator[tuple[Point, float]]:
    """Better and better points, each with the duality gap it would have were its multipliers feasible."""
    n, w, s, X, z = problem.n, point.w, point.s, point.X, point.z
    cone = 2 * n + len(z)
    while True:
        S, t = cones(problem, w, s), slacks(problem, w)
        gap = float((X * S).sum() + z @ t)
        yield Point(w, s, X, z), gap
        inverse = np.linalg.inv(S)
        inverse = (inverse + inverse.transpose(0, 2, 1)) / 2
        schur = Schur.of(problem, X, inverse, z, t)
        LS, LX = _root_inverse(S), _root_inverse(X)
        affine = _step(problem, schur, Point(w, s, X, z), inverse, t, 0.0, None)
        ap, ad = _reach(LS, affine.S, t, affine.t), _reach(LX, affine.X, z, affine.z)
        reached = float(((X + ad * affine.X) * (S + ap * affine.S)).sum() + (z + ad * affine.z) @ (t + ap * affine.t))
        sigma = min(1.0, max(reached, 0.0) / gap) ** 2
        move = _step(problem, schur, Point(w, s, X, z), inverse, t, sigma * gap / cone, affine)
        ap, ad = STEP * _reach(LS, move.S, t, move.t, STEP), STEP * _reach(LX, move.X, z, move.z, STEP)
        w, s, X, z = w + ap * move.w, s + ap * move.s, X + ad * move.X, z + ad * move.z


def _step(
    problem: Problem, schur: Schur, at: Point, inverse: Array, t: Array, mu: float, affine: Step | None
) -> Step:
    """The Newton step towards X S = mu I, z t = mu, with Mehrotra's second-order term where affine is given."""
    target, target_z = mu * inverse, mu / t
    if affine is not None:
        second = affine.X @ affine.S @ inverse
        target = target - (second + second.transpose(0, 2, 1)) / 2
        target_z = target_z - affine.z * affine.t / t
    pull = problem.forms((SIGNS * target).sum(axis=0)) / 1
    if problem.nonnegative:
        pull = pull + problem.slacks_gradient(target_z)
    dw, ds = schur.solve(pull, float(target.trace(axis1=1, axis2=2).sum()) - 1)
    dS = SIGNS * problem.laplacian(dw)
    dS[:, range(problem.n), range(problem.n)] += ds
    dX = at.X @ dS @ inverse
    dX = target - at.X - (dX + dX.transpose(0, 2, 1)) / 2
    dt = problem.slacks(dw) - problem.slacks(np.zeros_like(dw)) if problem.nonnegative else t
    return Step(dw, ds, dS, dX, dt, target_z - at.z - at.z * dt / t)


def _root_inverse(M: Array) -> Array:
    return np.linalg.inv(np.linalg.cholesky(M))


def _reach(root_inverse: Array, direction: Array, t: Array, dt: Array, enough: float = 1.0) -> float:
    """How far one may go before a cone is left, at most 1 / enough."""
    lowest = float(np.linalg.eigvalsh(root_inverse @ direction @ root_inverse.transpose(0, 2, 1))[:, 0].min())
    if len(t):
        lowest = min(lowest, float((dt / t).min()))
    return min(1 / enough, 1 / max(-lowest, 1e-300))
