"""What proves the weights optimal: a lower bound on the rho of *every* W with the same graph.

For any symmetric Y with a_e' Y a_e = y_i + y_j on the edges (y = 0 for FDLA; y >= 0, and <= instead of =, for FMMC)

    rho(W) ||Y||_* >= <Y, W - 11'/n> = <K, Y> - sum_e w_e a_e' Y a_e >= <K, Y> - sum_i y_i,     K = I - 11'/n.

So a Y that nearly satisfies the condition need not be trusted: its entries on the edges are overwritten so that it
does satisfy it, and the bound is evaluated for the repaired Y. No statement about the solver enters.
"""

from __future__ import annotations

import numpy as np

from dsgt.topologies.fastest.problem import Array, Problem


def lower_bound(problem: Problem, Y: Array, y: Array | None = None) -> float:
    """A number that no rho on this graph can be below (FMMC: no rho of nonnegative weights), valid up to rounding."""
    Y = (Y + Y.T) / 2
    i, j = problem.i, problem.j
    diagonal = Y.diagonal()
    allowed = np.zeros(problem.edges)
    paid = 0.0
    if problem.nonnegative and y is not None:
        y = np.maximum(y, 0)
        allowed = y[i] + y[j]
        paid = float(y.sum())
    needed = (diagonal[i] + diagonal[j] - allowed) / 2
    Y[i, j] = np.maximum(Y[i, j], needed) if problem.nonnegative else needed
    Y[j, i] = Y[i, j]
    # K Y K has the same values on the edges and a smaller nuclear norm.
    Y = Y - Y.mean(axis=0)
    Y = Y - Y.mean(axis=1, keepdims=True)
    size = float(np.abs(np.linalg.eigvalsh(Y)).sum())
    if size == 0:
        return 0.0
    # eigvalsh is backward stable: each eigenvalue is off by a few eps times ||Y||, n of them by n times that.
    rounding = 4 * problem.n * np.finfo(np.float64).eps
    return max(0.0, (float(Y.trace()) - paid) / size - rounding)
