"""Up to which lr c a method converges on quadratics f_i(x) = (c/2) |x - a_i|^2.

Per eigenvalue w of W a method is a linear recursion whose characteristic polynomial it may declare
(``Algorithm.polynomial``, ALGORITHMS 2). It converges iff all roots lie inside the unit circle for all w, apart from
the unit root that tracking has at w = 1 (E9). ``window`` takes the closed form where there is one, else looks for the
c at which a root crosses the unit circle, and measures a method that declares no polynomial.

For losses of different curvature these limits, with c = max L_i, are no theorem; ``advise`` keeps a margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from dsgt import algorithms
from dsgt.core import Algorithm, Eigenvalues, Matrix, Network, Weights
from dsgt.networks.dense import Dense
from dsgt.run import NetworkLike, as_network
from dsgt.theory.independence import ALL_EIGENVALUES_UP_TO
from dsgt.theory.measured import measured_limit, placed
from dsgt.topologies.matrix import to_dense
from dsgt.topologies.spectrum import is_symmetric, laplacian_extremes, smallest_eigenvalue

Method: TypeAlias = type[Algorithm[Any]] | Algorithm[Any]
"""A method, or its class, which stands for the method with its default parameters."""

MARGIN = 0.8
"""What is advised of a limit for equal quadratics: unequal curvatures lowered it to 0.91 at worst (docs/theory.md)."""

FROM_EIGENVALUES = "exact, from the eigenvalues of W"
PUBLISHED = "as published, for every problem"


@dataclass(frozen=True)
class Window:
    """A method converges on quadratics of curvature c iff low < lr c < high."""

    low: float
    high: float
    how: str = field(default=FROM_EIGENVALUES, compare=False)
    """How it is known: exact, or measured."""

    @property
    def empty(self) -> bool:
        return not self.low < self.high


_CLOSED: dict[type[Algorithm[Any]], Callable[[float], Window]] = {
    algorithms.SGD: lambda w: Window(0.0, 2.0),
    algorithms.DPSGD: lambda w: Window(0.0, 1 + w),
    algorithms.AtcDPSGD: lambda w: Window(0.0, 2.0),
    algorithms.SGP: lambda w: Window(0.0, 2.0),
    algorithms.DSGT: lambda w: Window(0.0, min(2.0, (1 - w**2) / -w) if w < 0 else 2.0),
    algorithms.GNSD: lambda w: Window(0.0, (1 + w) ** 2 / 2),
    algorithms.AugDGM: lambda w: Window(0.0, min(2.0, (1 + w) ** 2 / (2 * w**2)) if w < 0 else 2.0),
    algorithms.EXTRA: lambda w: Window(0.0, (5 + 3 * w) / 4),
    algorithms.ExactDiffusion: lambda w: Window(0.0, 2.0),
    algorithms.D2: lambda w: Window(max(0.0, (3 * abs(w) - 1) / (2 * abs(w))) if w < 0 else 0.0, 2.0),
}
"""The window as a function of the smallest eigenvalue w of a symmetric W, for methods where only that one matters."""


def as_method(method: Method) -> Algorithm[Any]:
    return method() if isinstance(method, type) else method


def has_polynomial(method: Method) -> bool:
    algorithm = as_method(method)
    return algorithm.asks.agrees and algorithm.polynomial(np.zeros(1), 1.0) is not None


def window(method: Method, network: NetworkLike) -> Window:
    """The stable range of lr c, and how it is known.

    From the eigenvalues of W for a method with a polynomial and one doubly stochastic matrix: exact for most symmetric
    W, else to 4 digits. Everything else, changing and random weights too, is measured by runs on quadratics, to a few
    percent. Nodes that live elsewhere are not asked.
    """
    algorithm = as_method(method)
    if algorithm.published_lr is not None:
        return Window(0.0, algorithm.published_lr, PUBLISHED)
    return window_on(*placed(algorithm, Dense(as_network(network).weights)))


def window_on(algorithm: Algorithm[Any], place: Network) -> Window:
    """The same for a fitted method and the network that it has made of the one it was given."""
    if not has_polynomial(algorithm) or not _is_one_doubly_stochastic(place.weights):
        return Window(0.0, measured_limit(algorithm, place), f"measured on {place.nodes} equal quadratics")
    W = place.weights.at(0)
    alike = (kind for kind in _CLOSED if isinstance(algorithm, kind) and type(algorithm).polynomial is kind.polynomial)
    closed = next((_CLOSED[kind] for kind in alike), None)
    if closed is not None and is_symmetric(W):
        return closed(smallest_eigenvalue(W) if W.shape[0] > 1 else 1.0)
    return _crossings(algorithm, _eigenvalues(W))


def _is_one_doubly_stochastic(weights: Weights) -> bool:
    if weights.changes or weights.push is not weights:
        return False
    return all(abs(np.asarray(weights.at(0).sum(axis=axis)) - 1).max() < 1e-6 for axis in (0, 1))


def spectral_radius(method: Method, eigenvalues: Eigenvalues, c: float) -> float:
    """The largest modulus of a root of the recursion; the best factor per round that the method can have at this c."""
    w = np.asarray(eigenvalues, dtype=np.complex128)
    others = _coefficients(as_method(method), w[abs(w - 1) > 1e-9], c)
    mean = _coefficients(as_method(method), np.ones(1, dtype=np.complex128), c)
    if abs(mean.sum()) < 1e-9:  # the root 1 of tracking, which a correct start does not excite: divide by z - 1
        mean = np.cumsum(mean, axis=1)[:, :-1]
    return max(_largest_root(others), _largest_root(mean))


def _coefficients(algorithm: Algorithm[Any], w: Eigenvalues, c: float) -> Eigenvalues:
    """One row per eigenvalue, divided by the leading coefficient."""
    given = algorithm.polynomial(w, c)
    if given is None:
        raise ValueError(f"{type(algorithm).__name__} declares no polynomial; window() measures its limit")
    rows = np.stack([np.broadcast_to(np.asarray(a, dtype=np.complex128), w.shape) for a in given], axis=1)
    scaled: Eigenvalues = rows / rows[:, :1]
    return scaled


def _largest_root(p: Eigenvalues) -> float:
    """The largest modulus of the roots of these polynomials: the eigenvalues of their companion matrices."""
    k, order = len(p), p.shape[1] - 1
    if k == 0 or order == 0:
        return 0.0
    companion = np.zeros((k, order, order), dtype=np.complex128)
    companion[:, 0] = -p[:, 1:]
    companion[:, range(1, order), range(order - 1)] = 1
    return float(np.abs(np.linalg.eigvals(companion)).max())


def _eigenvalues(W: Matrix) -> Eigenvalues:
    """All of them; of a large symmetric W the whole interval between the smallest and the second largest."""
    if not is_symmetric(W):
        return np.linalg.eigvals(to_dense(W))
    if W.shape[0] <= ALL_EIGENVALUES_UP_TO:
        return np.linalg.eigvalsh(to_dense(W))
    near, far = laplacian_extremes(W)
    return np.linspace(1 - far, 1 - near, 500)


def _crossings(algorithm: Algorithm[Any], w: Eigenvalues) -> Window:
    """The first range of c > 0 with all roots inside the unit circle; empty where there is none."""

    def stable(c: float) -> bool:
        return spectral_radius(algorithm, w, c) < 1

    grid = np.geomspace(1e-6, 100.0, 700).tolist()
    inside = [stable(c) for c in grid]
    if True not in inside:
        return Window(0.0, 0.0)
    first = inside.index(True)
    last = inside.index(False, first) if False in inside[first:] else None
    return Window(
        0.0 if first == 0 else _edge(stable, grid[first], grid[first - 1]),
        math.inf if last is None else _edge(stable, grid[last - 1], grid[last]),
    )


def _edge(stable: Callable[[float], bool], inside: float, outside: float) -> float:
    """Where stability ends between two neighbours of the grid, by halving."""
    while abs(outside - inside) > 1e-5 * outside:
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if stable(middle) else (inside, middle)
    return inside
