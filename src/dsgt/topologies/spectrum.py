"""How fast a weight matrix mixes, and who may use it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse

from dsgt.core import Matrix
from dsgt.topologies.eigen import DENSE_MOST, second_largest, smallest
from dsgt.topologies.matrix import MatrixLike, as_matrix, links, to_dense

ROUNDING = 1e-9


def rho(W: Matrix) -> float:
    """||W - 11'/n||_2: the factor by which one round shrinks the disagreement, for a doubly stochastic W."""
    n = W.shape[0]
    if is_symmetric(W) and _sums_to_one(W, 1):
        low, high = smallest(W), second_largest(W)
        return max(abs(low), abs(high)) if n > 1 else 0.0
    if n <= DENSE_MOST:
        return float(np.linalg.norm(to_dense(W) - 1 / n, 2))
    if _sums_to_one(W, 0) and _sums_to_one(W, 1):
        # ||W - J||^2 is the second eigenvalue of W'W, itself symmetric and doubly stochastic.
        return math.sqrt(max(0.0, second_largest(scipy.sparse.csr_array(W.T @ W))))
    rounds = scipy.sparse.linalg.LinearOperator(
        (n, n),
        matvec=lambda v: W @ v - v.mean(),
        rmatvec=lambda v: W.T @ v - v.mean(),
        dtype=np.float64,
    )
    return float(scipy.sparse.linalg.svds(rounds, k=1, tol=1e-4, return_singular_vectors=False, rng=0)[0])


def smallest_eigenvalue(W: Matrix) -> float:
    """lambda_n of a symmetric W."""
    return smallest(W)


def laplacian_extremes(W: Matrix) -> tuple[float, float]:
    """The smallest nonzero and the largest eigenvalue of I - W, for a symmetric W whose rows sum to 1."""
    return 1 - second_largest(W), 1 - smallest(W)


def is_symmetric(W: Matrix) -> bool:
    return bool(abs(W - W.T).max() <= ROUNDING)


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
    methods: dict[str, str] = field(default_factory=dict)
    """Every method of ALGORITHMS: empty where it may use W, else why not and what to do."""

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


def describe(W: MatrixLike) -> Description:
    """How good W is: how fast it mixes, what it costs, and which methods may use it."""
    # Here, because what a method needs is checked with the eigenvalues of this file.
    from dsgt.algorithms import ALGORITHMS
    from dsgt.topologies.needs import complaints

    matrix = as_matrix(W)
    n = matrix.shape[0]
    symmetric = is_symmetric(matrix) and _sums_to_one(matrix, 1)
    pattern = scipy.sparse.csr_array(matrix)
    pattern.eliminate_zeros()
    heard = np.diff(pattern.indptr) - (pattern.diagonal() != 0)
    doubly = _sums_to_one(matrix, 0) and _sums_to_one(matrix, 1)
    low, high = (smallest(matrix), second_largest(matrix)) if symmetric else (None, None)
    if low is not None and high is not None:
        speed = max(abs(low), abs(high)) if n > 1 else 0.0
    else:
        speed = rho(matrix) if doubly else _second_modulus(matrix)
    methods = {}
    for name, method in ALGORITHMS.items():
        # The smallest eigenvalue is known here, and costly where there are many nodes.
        known = low is not None and method.needs.floor is not None and low > method.needs.floor
        needs = replace(method.needs, floor=None) if known else method.needs
        methods[name] = "; ".join(complaints(needs, [matrix]))
    return Description(n, speed, high, low, links(matrix), int(heard.max()), methods)


def _second_modulus(W: Matrix) -> float:
    n = W.shape[0]
    if n == 1:
        return 0.0
    if n <= DENSE_MOST:
        return float(np.sort(np.abs(np.linalg.eigvals(to_dense(W))))[-2])
    start = np.random.default_rng(0).standard_normal(n)
    values = scipy.sparse.linalg.eigs(W, k=2, v0=start, tol=1e-4, return_eigenvectors=False)
    return float(np.sort(np.abs(values))[-2])
