"""How fast a weight matrix mixes, or several that take turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from dsgt.core import Matrix
from dsgt.late import linalg
from dsgt.topologies.eigen import DENSE_MOST, RESIDUAL, second_largest, smallest
from dsgt.topologies.matrix import MatrixLike, as_matrix, links, to_dense

ROUNDING = 1e-9
EDGE = 1e-6
"""An eigenvalue this close to a limit is on it: the iterative ways find eigenvalues to about 1e-7."""


def rho(W: Matrix) -> float:
    """||W - 11'/n||_2: the factor by which one round shrinks the disagreement, for a doubly stochastic W."""
    n = W.shape[0]
    if is_symmetric(W) and _sums_to_one(W, 1):
        low, high = smallest(W), second_largest(W)
        return max(abs(low), abs(high)) if n > 1 else 0.0
    if n <= DENSE_MOST:
        return float(np.linalg.norm(to_dense(W) - 1 / n, 2))
    if is_doubly_stochastic(W):
        # ||W - J||^2 is the second eigenvalue of W'W, itself symmetric and doubly stochastic.
        return math.sqrt(max(0.0, second_largest(scipy.sparse.csr_array(W.T @ W))))
    return _norm_away_from_the_mean([W])


def rho_of_rounds(matrices: Sequence[Matrix]) -> float:
    """rho of the product: the factor of one round with each of these matrices, the first one first."""
    if len(matrices) == 1:
        return rho(matrices[0])
    if matrices[0].shape[0] <= DENSE_MOST:
        return rho(_product(matrices))
    return _norm_away_from_the_mean(matrices)  # the product of sparse matrices may be a full one


def second_modulus(matrices: Sequence[Matrix]) -> float:
    """The second largest |eigenvalue| of the product: what rho is to weights that are not doubly stochastic."""
    n = matrices[0].shape[0]
    if n == 1:
        return 0.0
    if n <= DENSE_MOST:
        return float(np.sort(np.abs(np.linalg.eigvals(_product(matrices))))[-2])
    operator = linalg.LinearOperator((n, n), matvec=lambda v: _through(matrices, v), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    values = linalg.eigs(operator, k=2, v0=start, tol=RESIDUAL, return_eigenvectors=False)
    return float(np.sort(np.abs(values))[-2])


def _norm_away_from_the_mean(matrices: Sequence[Matrix]) -> float:
    n = matrices[0].shape[0]
    back = [W.T for W in reversed(matrices)]
    operator = linalg.LinearOperator(
        (n, n),
        matvec=lambda v: _through(matrices, v) - v.mean(),
        rmatvec=lambda v: _through(back, v) - v.mean(),
        dtype=np.float64,
    )
    return float(linalg.svds(operator, k=1, tol=RESIDUAL, return_singular_vectors=False, rng=0)[0])


def _through(matrices: Sequence[Matrix], v: Any) -> Any:
    for W in matrices:
        v = W @ v
    return v


def _product(matrices: Sequence[Matrix]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(_through(matrices[1:], to_dense(matrices[0])))


def smallest_eigenvalue(W: Matrix) -> float:
    """lambda_n of a symmetric W."""
    return smallest(W)


def is_above(eigenvalue: float, floor: float) -> bool:
    """Whether it lies above the floor, and not on it up to rounding."""
    return eigenvalue > floor + EDGE


def laplacian_extremes(W: Matrix) -> tuple[float, float]:
    """The smallest nonzero and the largest eigenvalue of I - W, for a symmetric W whose rows sum to 1."""
    return 1 - second_largest(W), 1 - smallest(W)


def is_symmetric(W: Matrix) -> bool:
    return bool(abs(W - W.T).max() <= ROUNDING)


def is_doubly_stochastic(W: Matrix) -> bool:
    """Whether its rows and its columns sum to 1."""
    return _sums_to_one(W, 0) and _sums_to_one(W, 1)


def _sums_to_one(W: Matrix, axis: int) -> bool:
    return bool(np.abs(W.sum(axis=axis) - 1).max() <= ROUNDING)


@dataclass(frozen=True)
class Description:
    """What ``describe`` found. Eigenvalues are given for a symmetric W only."""

    nodes: int
    rho: float
    """||W - 11'/n|| of a doubly stochastic W; of another, the modulus of the second eigenvalue."""
    lambda_2: float | None
    lambda_n: float | None
    messages: int
    """Vectors sent in one round by all nodes together."""
    max_degree: int
    """The most nodes that one node hears."""

    @property
    def gap(self) -> float:
        """1 - rho."""
        return 1 - self.rho

    @property
    def rounds_to_halve(self) -> float:
        """How many rounds halve the disagreement in the worst case; 0 where one round ends it."""
        if self.rho <= ROUNDING:
            return 0.0
        return math.inf if self.rho >= 1 else math.log(0.5) / math.log(self.rho)

    @property
    def methods(self) -> dict[str, str]:
        """Moved: a network knows no methods."""
        raise AttributeError("describe(W).methods is theory.usable(W) now")


def describe(W: MatrixLike) -> Description:
    """How good W is: how fast it mixes, and what it costs. Which methods may use it is told by ``theory.usable``."""
    matrix = as_matrix(W)
    n = matrix.shape[0]
    pattern = scipy.sparse.csr_array(matrix)
    pattern.eliminate_zeros()
    heard = np.diff(pattern.indptr) - (pattern.diagonal() != 0)
    low, high = None, None
    if is_symmetric(matrix) and _sums_to_one(matrix, 1):
        low, high = smallest(matrix), second_largest(matrix)
        speed = max(abs(low), abs(high)) if n > 1 else 0.0
    else:
        speed = rho(matrix) if is_doubly_stochastic(matrix) else second_modulus([matrix])
    return Description(n, speed, high, low, links(matrix), int(heard.max()))
