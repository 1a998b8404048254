"""A model's parameters as one flat vector, and back: the order is that of ``parameters()``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack


def flattened(values: Sequence[Tensor], *, dtype: torch.dtype | None = None) -> Tensor:
    """All of them in one new vector (m,)."""
    return torch.cat([v.detach().reshape(-1).to(dtype or v.dtype) for v in values])


def views(vector: Tensor, like: Sequence[Tensor]) -> Iterator[Tensor]:
    """The parts of the vector, each in the shape of the tensor whose place it has."""
    parts = vector.split([v.numel() for v in like])
    return (part.view(v.shape) for part, v in zip(parts, like, strict=True))


def link(parameters: Sequence[Tensor], vector: Tensor) -> None:
    """Make every parameter a view of its part of the vector."""
    for p, view in zip(parameters, views(vector, parameters), strict=True):
        p.data = view


def apart(view: Tensor) -> Tensor:
    """The same memory, but a storage of its own that it fills: safetensors and Accelerate take parts of one storage for
    copies of one tensor, and torch.save writes all of it for each."""
    return from_dlpack(view) if view.numel() and view.device.type in ("cpu", "cuda") else view
