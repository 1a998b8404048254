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


def gradients(
    table: Tensor,
    drawn: Callable[[int], Tensor],
    slope_: Callable[[Tensor, Tensor], Tensor],
    *,
    shape: tuple[int, int],
    weights: Tensor | float,
) -> Oracle:
    """Models of one score per sample, n nodes and b samples each: (x, k) -> the nodes' gradients, (n, d).

    ``drawn(k)`` gives the numbers of the samples, rows of the table; ``slope_`` the slopes of the loss at their scores,
    in place; and ``weights``, a number or (n, b or 1, 1), how much each sample counts."""
    (n, b), d = shape, table.shape[1]
    scores = table.new_empty(n, 1, b)
    rows, A, z = table.numpy(), np.empty_like(table.numpy(), shape=(n, b, d)), scores.numpy()
    flat, transposed = A.reshape(n * b, d), A.transpose(0, 2, 1)
    scale = weights if isinstance(weights, float) else weights.mT.numpy()

    @np.errstate(over="ignore", invalid="ignore")  # a run that diverges is stopped by the loop, as with torch
    def oracle(x: Tensor, k: int) -> Tensor:
        samples = drawn(k)
        rows.take(samples.numpy(), 0, flat, "clip")  # "raise" would copy twice; the samples are known to exist
        np.matmul((x.detach() if x.requires_grad else x).numpy().reshape(n, 1, d), transposed, z)
        slope_(scores, samples)
        np.multiply(z, scale, z)
        return torch.from_numpy(np.matmul(z, A).reshape(n, d))

    return oracle
