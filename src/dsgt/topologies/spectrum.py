"""How fast a weight matrix mixes."""

from __future__ import annotations

import numpy as np

from dsgt.core import Matrix
from dsgt.topologies.matrix import to_dense


def rho(W: Matrix) -> float:
    """||W - 11'/n||_2: the factor by which one round shrinks the disagreement, for a doubly stochastic W."""
    return float(np.linalg.norm(to_dense(W) - 1 / W.shape[0], 2))


def smallest_eigenvalue(W: Matrix) -> float:
    """lambda_n of a symmetric W."""
    return float(np.linalg.eigvalsh(to_dense(W))[0])
