"""Made-up data whose heterogeneity is a number: 0 means that all nodes see one distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from dsgt.data.samples import Samples
from dsgt.data.shards import Shards

Array = np.ndarray[Any, np.dtype[Any]]


def least_squares(
    sizes: Sequence[int],
    dim: int,
    *,
    heterogeneity: float = 1.0,
    noise: float = 0.1,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> tuple[Samples, Shards]:
    """Targets t = a'(x + h u_i) + noise: node i has its own truth, at the distance h |u_i| from the common x."""
    features, truths, rng = _features(sizes, dim, heterogeneity, seed)
    targets = np.einsum("nd,nd->n", features, truths) + noise * rng.standard_normal(len(features))
    return _samples(features, targets, sizes, dtype)


def classification(
    sizes: Sequence[int],
    dim: int,
    *,
    classes: int = 2,
    heterogeneity: float = 1.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> tuple[Samples, Shards]:
    """Labels drawn from a softmax of linear scores; heterogeneity shifts node i's features and so its labels."""
    if classes < 2:
        raise ValueError(f"classes is {classes}, but there must be at least 2 to tell apart")
    features, _, rng = _features(sizes, dim, 0.0, seed)
    node = np.repeat(np.arange(len(sizes)), sizes)
    features += heterogeneity * rng.standard_normal((len(sizes), dim))[node]
    scores = features @ rng.standard_normal((dim, classes)) * (3 / np.sqrt(dim))
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)  # the Gumbel trick draws from the softmax
    labels[:classes] = np.arange(classes)[: len(labels)]  # every class occurs
    return _samples(features, labels, sizes, dtype)


def _features(
    sizes: Sequence[int], dim: int, heterogeneity: float, seed: int
) -> tuple[Array, Array, np.random.Generator]:
    if not len(sizes) or min(sizes) < 1 or dim < 1 or heterogeneity < 0:
        raise ValueError(
            f"sizes are {list(sizes)[:8]}, dim is {dim} and heterogeneity is {heterogeneity}; every node needs at "
            "least one sample, dim is at least 1 and heterogeneity is not negative"
        )
    rng = np.random.default_rng(seed)
    truths = rng.standard_normal(dim) + heterogeneity * rng.standard_normal((len(sizes), dim))
    node = np.repeat(np.arange(len(sizes)), sizes)
    return rng.standard_normal((len(node), dim)), truths[node], rng


def _samples(features: Array, targets: Array, sizes: Sequence[int], dtype: torch.dtype) -> tuple[Samples, Shards]:
    """The samples come node after node, so the shards are consecutive."""
    t = torch.from_numpy(targets)
    samples = Samples(torch.from_numpy(features).to(dtype), t.to(dtype) if t.is_floating_point() else t.long())
    return samples, Shards(torch.arange(len(samples)), torch.as_tensor(list(sizes), dtype=torch.int64))
