"""Gradients of a linear model for batches so small that starting an operation takes longer than the operation.

NumPy starts an operation twice as fast as torch, and it works on the tensors' own memory (benchmarks/simulator.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from dsgt.problems.base import Oracle

MOST_NUMBERS = 1 << 16
"""Numbers in all nodes' batches, at most; torch would not use a second core for so few either."""
MOST_MULTIPLICATIONS = 1 << 18
"""In a node's product: for more, NumPy's BLAS starts threads, which torch's number of threads does not limit."""


def is_worthwhile(nodes: int, numbers: int, scores: int) -> bool:
    """For so many numbers in the longest batch of a node."""
    return nodes * numbers <= MOST_NUMBERS and scores * numbers <= MOST_MULTIPLICATIONS


def gradients(
    table: Tensor,
    drawn: Callable[[int], Tensor],
    slope_: Callable[[Tensor, Tensor], Tensor],
    *,
    shape: tuple[int, int, int],
    weights: Tensor | float,
) -> Oracle:
    """n nodes, C scores per sample and b samples each, ``shape``: (x, k) -> the nodes' gradients, (n, C d).

    ``drawn(k)`` gives the numbers of the samples, rows of the table; ``slope_`` the slopes of the loss at their scores
    (n, C, b), which it may overwrite; and ``weights``, a number or (n, 1, b or 1), how much each sample counts."""
    (n, C, b), d = shape, table.shape[1]
    scores = table.new_empty(n, C, b)
    rows, A, z = table.numpy(), np.empty_like(table.numpy(), shape=(n, b, d)), scores.numpy()
    flat, transposed = A.reshape(n * b, d), A.transpose(0, 2, 1)
    scale = weights if isinstance(weights, float) else weights.numpy()

    @np.errstate(over="ignore", invalid="ignore")  # a run that diverges is stopped by the loop, as with torch
    def oracle(x: Tensor, k: int) -> Tensor:
        samples = drawn(k)
        rows.take(samples.numpy(), 0, flat, "clip")  # "raise" would copy twice; the samples are known to exist
        np.matmul((x.detach() if x.requires_grad else x).numpy().reshape(n, C, d), transposed, z)
        slope = slope_(scores, samples).numpy()
        np.multiply(slope, scale, slope)
        return torch.from_numpy(np.matmul(slope, A).reshape(n, C * d))

    return oracle
