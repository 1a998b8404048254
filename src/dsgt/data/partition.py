"""Who holds what: ways to cut a data set into one shard per node.

Every sample lands in exactly one shard, no shard is empty, and the same seed gives the same shards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dsgt.data.samples import Samples
from dsgt.data.shards import Shards

Ints = np.ndarray[Any, np.dtype[np.int64]]
REDRAWS = 100
"""How often a Dirichlet partition with an empty shard is drawn again before giving up."""


def equal(data: Sized | int, nodes: int, *, seed: int = 0) -> Shards:
    """At random, all nodes the same number of samples (the first few one more where it does not divide)."""
    N = _count(data, nodes)
    sizes_ = np.full(nodes, N // nodes, dtype=np.int64)
    sizes_[: N % nodes] += 1
    return sizes(data, sizes_.tolist(), seed=seed)


def sizes(data: Sized | int, sizes: Sequence[int], *, seed: int = 0) -> Shards:
    """At random, node i exactly sizes[i] samples."""
    N = _count(data, len(sizes))
    given = torch.as_tensor(sizes, dtype=torch.int64)
    if int(given.sum()) != N or int(given.min()) < 1:
        raise ValueError(
            f"the sizes sum to {int(given.sum())} and the smallest is {int(given.min())}, but {N} samples are to be "
            "shared among all and nobody may go empty; use partition.proportions to give ratios"
        )
    return Shards(torch.from_numpy(np.random.default_rng(seed).permutation(N)), given)


def proportions(data: Sized | int, proportions: Sequence[float], *, seed: int = 0) -> Shards:
    """At random, sizes in these ratios: proportions(data, [1, 2, 4, 8])."""
    N = _count(data, len(proportions))
    return sizes(data, apportion(N, np.asarray(proportions, dtype=np.float64)).tolist(), seed=seed)


def dirichlet(labels: Tensor, nodes: int, *, alpha: float, seed: int = 0) -> Shards:
    """Label skew: each label is shared out in proportions drawn from a Dirichlet(alpha) distribution.

    A small alpha gives each node few labels and uneven sizes, a large one gives everyone the same mixture. Drawn
    again while a shard is empty.
    """
    _count(labels, nodes)
    if not (np.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha is {alpha}, but a Dirichlet parameter is a finite number above 0 (0.1 is strong skew)")
    rng = np.random.default_rng(seed)
    groups = _by_label(labels, rng)
    for _ in range(REDRAWS):
        owners = np.empty(len(labels), dtype=np.int64)
        for group in groups:
            shares = apportion(len(group), rng.dirichlet(np.full(nodes, alpha)))
            owners[group] = np.repeat(np.arange(nodes), shares)
        if np.bincount(owners, minlength=nodes).all():
            return _from_owners(owners, nodes)
    raise ValueError(
        f"alpha = {alpha} left one of {nodes} nodes without samples in each of {REDRAWS} draws; use a larger alpha, "
        "fewer nodes or another seed"
    )


def by_label(labels: Tensor, nodes: int, *, labels_per_node: int, seed: int = 0) -> Shards:
    """Label skew, hard: each node holds exactly this many labels, and those who share a label share it equally."""
    _count(labels, nodes)
    rng = np.random.default_rng(seed)
    groups = _by_label(labels, rng)
    k, C = labels_per_node, len(groups)
    if not 1 <= k <= C or nodes * k < C:
        raise ValueError(
            f"{nodes} nodes with {k} labels each cannot hold {C} labels; labels_per_node must be at most {C} and at "
            f"least {-(-C // nodes)}"
        )
    held = rng.permutation(C)[np.arange(nodes * k) % C].reshape(nodes, k)  # node i's labels: k consecutive, so distinct
    owners = np.empty(len(labels), dtype=np.int64)
    for label, group in enumerate(groups):
        holders = np.nonzero((held == label).any(axis=1))[0]
        if len(holders) > len(group):
            raise ValueError(
                f"label {label} has {len(group)} samples for {len(holders)} nodes; use fewer nodes or fewer labels "
                "per node"
            )
        owners[group] = np.repeat(holders, apportion(len(group), np.ones(len(holders))))
    return _from_owners(owners, nodes)


def by_column(values: Sequence[Hashable] | Tensor) -> Shards:
    """One node per distinct value of a column (a hospital, a writer, a sensor); nodes in the order of first sight."""
    column = values.tolist() if isinstance(values, Tensor) else values
    node: dict[Hashable, int] = {}
    owners = np.array([node.setdefault(v, len(node)) for v in column], dtype=np.int64)
    _count(owners, len(node))
    return _from_owners(owners, len(node))


def by_group(groups: Tensor, nodes: int, *, seed: int = 0) -> Shards:
    """Whole groups, such as writers, dealt out in a random order: all that one of them made is held by one node."""
    found, group = np.unique(groups.cpu().numpy(), return_inverse=True)
    if not 1 <= nodes <= len(found):
        raise ValueError(f"{len(found)} groups cannot be dealt to {nodes} nodes: use 1 ... {len(found)} nodes")
    place = np.random.default_rng(seed).permutation(len(found))
    return _from_owners((place % nodes)[group], nodes)


def by_function(data: Samples, key: Callable[[Tensor, Tensor], Hashable]) -> Shards:
    """One node per distinct ``key(features, target)``."""
    return by_column([key(a, t) for a, t in zip(data.features, data.targets, strict=True)])


def duplicates(data: Samples, *, copies: int = 2) -> tuple[Samples, Shards]:
    """The paper's Example 2: a larger data set in which node i holds ``copies`` copies of sample i and nothing else.

    A node's gradients then have no variance, while those of the whole data set do.
    """
    if copies < 1:
        raise ValueError(f"copies is {copies}, but every node holds at least one")
    repeat = torch.arange(len(data)).repeat_interleave(copies)
    many = Samples(data.features[repeat], data.targets[repeat])
    return many, Shards(torch.arange(len(many)), torch.full((len(data),), copies))


def apportion(total: int, proportions: np.ndarray[Any, Any]) -> Ints:
    """Whole numbers in these proportions that sum to total: rounded down, then one more to the largest remainders."""
    if not (np.isfinite(proportions).all() and (proportions >= 0).all() and proportions.sum() > 0):
        raise ValueError(f"proportions must be finite, not negative and not all zero, but they are {proportions}")
    exact = total * (proportions / proportions.sum())
    whole: Ints = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]] += 1
    return whole


def _count(data: Sized | int, nodes: int) -> int:
    N = data if isinstance(data, int) else len(data)
    if not 1 <= nodes <= N:
        raise ValueError(
            f"{N} samples cannot be shared among {nodes} nodes: each needs at least one; use 1 ... {N} nodes"
        )
    return N


def _by_label(labels: Tensor, rng: np.random.Generator) -> list[Ints]:
    """The indices of each label's samples, shuffled."""
    if labels.is_floating_point() or labels.ndim != 1:
        raise TypeError(
            f"labels are one whole number per sample, but they are {labels.dtype} of shape {tuple(labels.shape)}"
        )
    _, inverse = np.unique(labels.cpu().numpy(), return_inverse=True)
    order = rng.permutation(len(labels))
    order = order[np.argsort(inverse[order], kind="stable")]
    return np.split(order, np.cumsum(np.bincount(inverse))[:-1])


def _from_owners(owners: Ints, nodes: int) -> Shards:
    order = np.argsort(owners, kind="stable")
    return Shards(torch.from_numpy(order), torch.from_numpy(np.bincount(owners, minlength=nodes)))
