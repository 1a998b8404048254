"""Gradients of a linear model, some nodes at a time, by NumPy on the tensors' own memory.

NumPy starts an operation twice as fast as torch, and multiplies many small matrices two to four times as fast. What a
few nodes need stays in the caches, and only their gradients go to memory, which is used again: fresh memory would cost
more than the arithmetic (benchmarks/large.py, benchmarks/simulator.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from dsgt.buffers import LARGE_BYTES, Buffers
from dsgt.threads import share_out

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Which = TypeVar("Which")

MOST_MULTIPLICATIONS = 1 << 18
"""In a node's product: for more, NumPy's BLAS starts threads, which torch's number of threads does not limit."""
FEW = 128
"""Numbers in a node's batch: for one score and no more of them, sums are faster than BLAS called for every node."""
IN_CACHE = 1 << 19
"""Numbers in the batches of the nodes that are computed at a time."""


class _Rooms(threading.local):
    """A thread's own memory, by the number of nodes."""

    def __init__(self) -> None:
        self.rooms: dict[int, tuple[Any, ...]] = {}


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
    scale = weights if isinstance(weights, float) else weights.numpy()
    own = _Rooms()
    by_sums = C == 1 and b * d <= FEW

    def room(count: int) -> tuple[Any, ...]:
        """Memory for the batches and scores of so many nodes, with the views of it that products ask for. It is kept:
        making it anew, and its fresh pages, would cost as much as a small gradient."""
        batch = np.empty((count, b, d), rows.dtype)
        scores = table.new_empty(C, count, b).transpose(0, 1)  # a class's side by side, for the softmax
        kept = own.rooms[count] = batch, batch.reshape(-1, d), batch.transpose(0, 2, 1), scores, scores.numpy()
        return kept

    @np.errstate(over="ignore", invalid="ignore")  # a run that diverges is stopped by the loop, as with torch
    def write(g: Array, models: Array, samples: Tensor, scale: Array | float) -> None:
        batch, flat, transposed, scores, z = own.rooms.get(len(g)) or room(len(g))
        rows.take(samples.numpy(), 0, flat, "clip")  # "raise" would copy twice; the samples are known to exist
        np.einsum("ncd,nbd->ncb", models, batch, out=z) if by_sums else np.matmul(models, transposed, z)
        found = slope_(scores, samples)
        slope = z if found is scores else found.numpy()
        np.multiply(slope, scale, slope)
        np.einsum("ncb,nbd->ncd", slope, batch, out=g) if by_sums else np.matmul(slope, batch, g)

    def write_parts(g: Array, models: Array, samples: Tensor, first: int, last: int) -> None:
        for i in range(first * at_once, min(last * at_once, n), at_once):
            j = min(i + at_once, n)
            write(g[i:j], models[i:j], samples[i * b : j * b], scale if isinstance(scale, float) else scale[i:j])

    def oracle(x: Tensor, k: Which) -> Tensor:
        samples, models = drawn(k), (x.detach() if x.requires_grad else x).numpy().reshape(n, C, d)
        if n <= at_once and models.nbytes < LARGE_BYTES:  # NumPy's memory is then the faster one to ask for
            small = np.empty(models.shape, models.dtype)
            write(small, models, samples, scale)
            return torch.from_numpy(small.reshape(n, C * d))
        g = memory.scratch(x)
        share_out(partial(write_parts, g.numpy().reshape(n, C, d), models, samples), -(-n // at_once))
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
