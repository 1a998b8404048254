"""The second largest and the smallest eigenvalue of a symmetric W, without a dense matrix where there are many nodes.

There are two ways. Lanczos iteration on W takes a few hundred products where the network mixes fast, as a random
regular graph does. Where it mixes slowly, as a ring does, that would take too many; but then the LU factors of I - W
stay sparse, and Lanczos iteration on the inverse takes a few steps. A rough estimate chooses between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from dsgt.core import Matrix
from dsgt.late import linalg
from dsgt.topologies.matrix import to_dense

Array = np.ndarray[Any, np.dtype[np.float64]]

DENSE_MOST = 1500
"""Up to this many nodes all eigenvalues are computed."""
RESIDUAL = 1e-4
"""Where Lanczos stops: an eigenvalue is off by less, mostly by its square."""
COARSE = 0.02
"""The residual of the rough estimate."""
SLOW = 0.02
"""Where the estimate is this close to the end of the possible range, the inverse is used."""


def second_largest(W: Matrix) -> float:
    """lambda_2 of a symmetric W whose rows sum to 1: the largest eigenvalue away from agreement."""
    n = W.shape[0]
    if n == 1:
        return 0.0
    if n <= DENSE_MOST:
        values = np.linalg.eigvalsh(to_dense(W))
        return float(np.delete(values, np.abs(values - 1).argmin())[-1])

    def away(v: Array) -> Array:
        return np.asarray(W @ v - v.mean())

    if 1 - _lanczos(away, n, "LA", residual=COARSE) < SLOW:
        return 1 - 1 / _largest_of_pseudo_inverse(W)
    return _lanczos(away, n, "LA")


def smallest(W: Matrix) -> float:
    """lambda_n of a symmetric W."""
    n = W.shape[0]
    if n <= DENSE_MOST:
        return float(np.linalg.eigvalsh(to_dense(W))[0])

    def product(v: Array) -> Array:
        return np.asarray(W @ v)

    bound = _gershgorin(W)
    if _lanczos(product, n, "SA", residual=COARSE) - bound > SLOW:
        return _lanczos(product, n, "SA")
    below = bound - RESIDUAL
    shifted = _factors(W - below * scipy.sparse.eye_array(n))
    # lambda_n lies within about RESIDUAL of the shift, so one percent of the distance is a thousandth of RESIDUAL.
    return below + 1 / _lanczos(shifted.solve, n, "LA", residual=0.01)


def _largest_of_pseudo_inverse(W: Matrix) -> float:
    """1 / (1 - lambda_2): I - W with node 0 left out has an inverse, which is the pseudo-inverse up to the mean."""
    n = W.shape[0]
    laplacian = scipy.sparse.csc_array(scipy.sparse.eye_array(n) - scipy.sparse.csc_array(W))
    grounded = _factors(laplacian[1:, 1:])

    def product(v: Array) -> Array:
        u = np.concatenate([[0.0], grounded.solve(np.ravel(v)[1:] - v.mean())])
        return np.asarray(u - u.mean())

    return _lanczos(product, n, "LA")


def _factors(A: object) -> linalg.SuperLU:
    """The factors of a symmetric positive definite matrix, ordered for little fill."""
    return linalg.splu(scipy.sparse.csc_array(A), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})


def _lanczos(product: Callable[[Array], Array], n: int, which: str, *, residual: float = RESIDUAL) -> float:
    """One end of the spectrum, found to the relative residual."""
    start = np.random.default_rng(0).standard_normal(n)
    operator = linalg.LinearOperator((n, n), matvec=product, dtype=np.float64)
    # The vectors are long and few: a second core gains nothing, and waiting for a busy one costs ten times.
    with threadpool_limits(1, "blas"):
        found = linalg.eigsh(operator, k=1, which=which, v0=start, ncv=30, maxiter=1000, tol=residual)
    return float(found[0][0])


def _gershgorin(W: Matrix) -> float:
    """A number that no eigenvalue is below."""
    own = W.diagonal()
    return float((own - (abs(W).sum(axis=1) - np.abs(own))).min())
