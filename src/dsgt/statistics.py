"""What a module remembers besides its parameters, such as BatchNorm's running statistics: by name, one row a node."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

Kept = dict[str, Tensor]
"""By the buffer's name, (r, ...) for r nodes; and what each node's count for in a mean, ``SHARE``."""
SHARE = "share of all samples"
MEAN, VARIANCE = "running_mean", "running_var"


def averaged(kept: Mapping[str, Tensor]) -> Kept:
    """For the mean model: means over the nodes, weighted by their samples, in double precision.

    A variance is the mean of the squares less the square of the mean, so how far the nodes' means lie apart is part of
    it. Counters are rounded."""
    shares = kept[SHARE].double()
    shares = shares / shares.sum()
    return {name: _mean(name, kept, shares).to(v.dtype) for name, v in kept.items() if name != SHARE}


def _mean(name: str, kept: Mapping[str, Tensor], shares: Tensor) -> Tensor:
    head, _, last = name.rpartition(VARIANCE)
    of = f"{head}{MEAN}" if not last else ""
    value = _over(shares, kept[name])
    if name.endswith(VARIANCE) and of in kept:
        squares = _over(shares, kept[of].double().square())
        return value + (squares - _over(shares, kept[of]).square()).clamp(min=0.0)
    return value if kept[name].is_floating_point() else value.round()


def _over(shares: Tensor, values: Tensor) -> Tensor:
    total: Tensor = torch.tensordot(shares, values.double(), dims=1)
    return total


def packed(kept: Mapping[str, Tensor]) -> Tensor:
    """All of it as one row of numbers a node, (r, B), exact for counters too; for one message."""
    return torch.cat([v.double().reshape(len(v), -1) for v in kept.values()], dim=1)


def unpacked(rows: Tensor, like: Mapping[str, Tensor]) -> Kept:
    """The inverse of ``packed``, for as many rows as there are."""
    parts = rows.split([v[0].numel() for v in like.values()], dim=1)
    return {
        name: part.reshape(len(rows), *v.shape[1:]).to(v.dtype)
        for (name, v), part in zip(like.items(), parts, strict=True)
    }
