"""How fast a weight matrix mixes."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from dsgt.core import Matrix


def rho(W: Matrix) -> float:
    """||W - 11'/n||_2: the factor by which one round shrinks the disagreement, for a doubly stochastic W."""
    dense = W.toarray() if scipy.sparse.issparse(W) else W
    return float(np.linalg.norm(dense - 1 / len(dense), 2))


def smallest_eigenvalue(W: Matrix) -> float:
    """lambda_n of a symmetric W."""
    dense = W.toarray() if scipy.sparse.issparse(W) else W
    return float(np.linalg.eigvalsh(dense)[0])
