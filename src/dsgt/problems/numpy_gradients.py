"""Gradients of a linear model, some nodes at a time, by NumPy on the tensors' own memory.

NumPy starts an operation twice as fast as torch, and multiplies many small matrices two to four times as fast. What a
few nodes need stays in the caches, and only their gradients go to memory, which is used again: fresh memory would cost
more than the arithmetic (benchmarks/large.py, benchmarks/simulator.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from dsgt.buffers import Buffers
from dsgt.threads import share_out

Which = TypeVar("Which")

MOST_MULTIPLICATIONS = 1 << 18
"""In a node's product: for more, NumPy's BLAS starts threads, which torch's number of threads does not limit."""
IN_CACHE = 1 << 18
"""Numbers in the batches of the nodes that are computed at a time."""


def is_worthwhile(numbers: int, scores: int) -> bool:
    """For so many numbers in the longest batch of a node."""
    return scores * numbers <= MOST_MULTIPLICATIONS


def gradients(
    table: Tensor,
    drawn: Callable[[Which], Tensor],
    slope_: Callable[[Tensor, Tensor], Tensor],
    *,
    shape: tuple[int, int, int],
    weights: Tensor | float,
) -> Callable[[Tensor, Which], Tensor]:
    """n nodes, C scores per sample and b samples each, ``shape``: (x, k) -> the nodes' gradients, (n, C d).

    ``drawn(k)`` gives the numbers of the samples, rows of the table; ``slope_`` the slopes of the loss at their scores
    (n, C, b), which it may overwrite; ``weights``, a number or (n, 1, b or 1), how much each sample counts."""
    (n, C, b), d = shape, table.shape[1]
    at_once = max(1, IN_CACHE // (b * d))
    memory = Buffers.shared()
    rows = table.numpy()
    scale = weights if isinstance(weights, float) else weights[:, 0].numpy()

    own = threading.local()

    def room(count: int, dtype: torch.dtype) -> tuple[Any, ...]:
        """A thread's memory for the batches and scores of so many nodes, with the views of it that products ask for. It
        is kept: making it anew, and its fresh pages, would cost as much as a small gradient."""
        if not hasattr(own, "rooms"):
            own.rooms = {}
        kept: dict[tuple[int, torch.dtype], tuple[Any, ...]] = own.rooms
        if (count, dtype) not in kept:
            batch = np.empty((count, b, d), rows.dtype)
            scores = torch.empty(C, count, b, dtype=dtype).transpose(0, 1)  # a class's side by side, for the softmax
            kept[count, dtype] = batch, batch.reshape(-1, d), batch.transpose(0, 2, 1), scores, scores.numpy()
        return kept[count, dtype]

    @np.errstate(over="ignore", invalid="ignore")  # a run that diverges is stopped by the loop, as with torch
    def some(x: Tensor, samples: Tensor, g: Tensor, first: int, last: int) -> None:
        models, gradients = x.numpy().reshape(n, C, d), g.numpy().reshape(n, C, d)
        for i in range(first * at_once, min(last * at_once, n), at_once):
            j = min(i + at_once, n)
            drawn_here = samples if j - i == n else samples[i * b : j * b]
            batch, flat, transposed, scores, z = room(j - i, x.dtype)
            rows.take(drawn_here.numpy(), 0, flat, "clip")  # "raise" would copy twice; the samples are known to exist
            np.matmul(models[i:j], transposed, z)
            slope = slope_(scores, drawn_here).numpy()
            by_class = slope.transpose(1, 0, 2)
            np.multiply(by_class, scale if isinstance(scale, float) else scale[i:j], by_class)
            np.matmul(slope, batch, gradients[i:j])

    def oracle(x: Tensor, k: Which) -> Tensor:
        samples = drawn(k)
        x = x.detach() if x.requires_grad else x
        g = memory.scratch(x)
        share_out(lambda first, last: some(x, samples, g, first, last), -(-n // at_once))
        return g

    return oracle


def same_samples(
    table: Tensor,
    drawn: Callable[[Which], Tensor],
    slope_: Callable[[Tensor, Tensor], Tensor],
    *,
    scores: int,
    scale: float,
    l2: float,
) -> Callable[[Tensor, Which], Tensor]:
    """One node with r models (r, C d), and the same samples for all: (x, k) -> the gradients, (r, C d). It is so
    short that ``np.errstate`` is left to whoever calls it often."""
    rows = table.numpy()

    def oracle(x: Tensor, k: Which) -> Tensor:
        samples, runs = drawn(k), x.shape[0]
        A, flat = rows.take(samples.numpy(), 0), x.numpy().reshape(-1, rows.shape[1])
        z = torch.from_numpy(np.dot(flat, A.T).reshape(runs, scores, -1))
        slope = slope_(z, samples.expand(runs, -1)).numpy()
        g = np.dot(slope.reshape(len(flat), -1), A)
        g *= scale
        if l2:
            g += l2 * flat
        return torch.from_numpy(g.reshape(x.shape))

    return oracle
