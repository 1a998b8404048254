"""What proves the weights optimal: a lower bound on the rho of *every* W with the same graph.

For any symmetric Y with a_e' Y a_e = 0 on the edges (FDLA), or any Y and y >= 0 with a_e' Y a_e <= y_i + y_j (FMMC),

    rho(W) ||Y||_* >= <Y, W - 11'/n> = <K, Y> - sum_e w_e a_e' Y a_e >= <K, Y> - sum_i y_i,     K = I - 11'/n.

So a Y that nearly satisfies the condition need not be trusted: its entries on the edges are overwritten so that it
does satisfy it, and the bound is evaluated for the repaired Y. No statement about the solver enters.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dsgt.topologies.fastest.problem import Problem


def lower_bound(problem: Problem, Y: Tensor, y: Tensor) -> float:
    """A number that no rho on this graph (FMMC: of nonnegative weights) can be below, valid up to rounding.

    y holds the multipliers of what the nodes keep for themselves; FDLA has none and ignores it.
    """
    Y = (Y + Y.T) / 2
    i, j = problem.i, problem.j
    d = Y.diagonal()
    y = y.clamp(min=0) if problem.nonnegative else Y.new_zeros(problem.n)
    needed = (d[i] + d[j] - y[i] - y[j]) / 2
    edge = torch.maximum(Y[i, j], needed) if problem.nonnegative else needed
    Y[i, j] = edge
    Y[j, i] = edge
    # What every sum below may be off by: eigvalsh is backward stable, and the means cancel at the size of the entries.
    rounding = 8 * problem.n**2 * torch.finfo(torch.float64).eps * float(Y.abs().max())
    # K Y K has the same values on the edges and a smaller nuclear norm.
    Y = Y - Y.mean(dim=0)
    Y = Y - Y.mean(dim=1, keepdim=True)
    size = float(torch.linalg.eigvalsh(Y).abs().sum())
    proven = float(Y.trace()) - float(y.sum()) - rounding
    return max(0.0, proven / (size + rounding)) if rounding else 0.0
