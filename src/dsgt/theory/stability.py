"""Exact stability limits on quadratics: up to which lr c a method converges for f_i(x) = (c/2) |x - a_i|^2.

Per eigenvalue w of W a method is a linear recursion with characteristic polynomial z^2 + b z + d (ALGORITHMS 2). It
converges iff all roots lie inside the unit circle for all w, apart from the unit root that tracking has at w = 1 (E9).
``window`` gives the closed forms for symmetric W, and the first crossing of the unit circle for any other W.

For losses of different curvature these limits, with c = max L_i, are no theorem; ``advise`` keeps a margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dsgt import algorithms
from dsgt.core import Algorithm, Matrix
from dsgt.topologies.matrix import to_dense
from dsgt.topologies.spectrum import is_symmetric, smallest_eigenvalue

Method: TypeAlias = type[Algorithm[Any]]
Eigenvalues: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Polynomial: TypeAlias = Callable[[Eigenvalues, float], tuple[Eigenvalues, Eigenvalues]]

POLYNOMIALS: dict[Method, Polynomial] = {
    algorithms.SGD: lambda w, c: (-(1 - c) * w, 0 * w),
    algorithms.DPSGD: lambda w, c: (-(w - c), 0 * w),
    algorithms.AtcDPSGD: lambda w, c: (-(1 - c) * w, 0 * w),
    algorithms.SGP: lambda w, c: (-(1 - c) * w, 0 * w),
    algorithms.DSGT: lambda w, c: (-(2 - c) * w, w**2 - c * w),
    algorithms.GNSD: lambda w, c: (-(2 * w - c), w**2 - c),
    algorithms.AugDGM: lambda w, c: (-(2 * w - c * w**2), w**2 - c * w**2),
    algorithms.EXTRA: lambda w, c: (-(1 + w - c), (1 + w) / 2 - c),
    algorithms.ExactDiffusion: lambda w, c: (-(2 - c) * (1 + w) / 2, (1 - c) * (1 + w) / 2),
    algorithms.D2: lambda w, c: (-(2 - c) * w, (1 - c) * w),
}
"""b and d of z^2 + b z + d, for eigenvalues w of W and c = lr times the curvature. SGP: for doubly stochastic W."""

_HIGHEST: dict[Method, Callable[[float], float]] = {
    algorithms.SGD: lambda w: 2.0,
    algorithms.DPSGD: lambda w: 1 + w,
    algorithms.AtcDPSGD: lambda w: 2.0,
    algorithms.SGP: lambda w: 2.0,
    algorithms.DSGT: lambda w: min(2.0, (1 - w**2) / -w) if w < 0 else 2.0,
    algorithms.GNSD: lambda w: (1 + w) ** 2 / 2,
    algorithms.AugDGM: lambda w: min(2.0, (1 + w) ** 2 / (2 * w**2)) if w < 0 else 2.0,
    algorithms.EXTRA: lambda w: (5 + 3 * w) / 4,
    algorithms.ExactDiffusion: lambda w: 2.0,
    algorithms.D2: lambda w: 2.0,
}
"""The upper end as a function of the smallest eigenvalue w of a symmetric W."""


@dataclass(frozen=True)
class Window:
    """A method converges on quadratics of curvature c iff low < lr c < high."""

    low: float
    high: float

    @property
    def empty(self) -> bool:
        return not self.low < self.high


def window(method: Method, W: Matrix) -> Window:
    """The stable range of lr c. Closed form for a symmetric W; else found to 4 digits from the eigenvalues of W."""
    if method not in POLYNOMIALS:
        raise ValueError(f"no stability limit is known for {method.__name__}; add its polynomial to theory.stability")
    if not is_symmetric(W):
        return Window(0.0, _first_crossing(POLYNOMIALS[method], np.linalg.eigvals(to_dense(W))))
    w = smallest_eigenvalue(W) if W.shape[0] > 1 else 1.0
    low = max(0.0, (3 * abs(w) - 1) / (2 * abs(w))) if method is algorithms.D2 and w < 0 else 0.0
    return Window(low, _HIGHEST[method](w))


def spectral_radius(method: Method, eigenvalues: Eigenvalues, c: float) -> float:
    """The largest modulus of a root of the recursion; the best factor per round that the method can have at this c."""
    return _radius(POLYNOMIALS[method], np.asarray(eigenvalues, dtype=np.complex128), c)


def _radius(polynomial: Polynomial, w: Eigenvalues, c: float) -> float:
    # at w = 1 every polynomial is (z - 1)(z - (1 - c)) or z - (1 - c); a correct start does not excite the unit root
    w = w[abs(w - 1) > 1e-9]
    if len(w) == 0:
        return abs(1 - c)
    b, d = polynomial(w, c)
    root = np.sqrt(b**2 - 4 * d + 0j)
    return max(abs(1 - c), float(np.maximum(abs(-b + root), abs(-b - root)).max() / 2))


def _first_crossing(polynomial: Polynomial, w: Eigenvalues) -> float:
    """The smallest c > 0 at which a root leaves the unit circle; 0 where one is outside for every small c."""
    w = w.astype(np.complex128)
    grid = np.geomspace(1e-6, 4.0, 600)
    outside = [i for i, c in enumerate(grid) if _radius(polynomial, w, float(c)) >= 1]
    if not outside:
        return math.inf
    if outside[0] == 0:
        return 0.0
    stable, unstable = float(grid[outside[0] - 1]), float(grid[outside[0]])
    while unstable - stable > 1e-5 * unstable:
        middle = (stable + unstable) / 2
        if _radius(polynomial, w, middle) < 1:
            stable = middle
        else:
            unstable = middle
    return stable
