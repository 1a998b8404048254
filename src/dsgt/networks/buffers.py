"""Memory that is used again. Fresh memory costs more than the arithmetic on it: the kernel must clear every page."""

from __future__ import annotations

import torch
from torch import Tensor

LARGE = 1 << 18
"""Numbers in a tensor from which on the allocator gives freed memory back to the kernel, and fresh memory is slow."""
MOST = 6
"""How many tensors are kept: what a method remembers, and what it is about to."""


class Buffers:
    """Hands out uninitialised tensors, and the same memory again once nobody holds any part of it."""

    def __init__(self) -> None:
        self._kept: list[Tensor] = []

    def large(self, v: Tensor) -> Tensor | None:
        """A tensor of v's shape, dtype and device; None, let the allocator do it, where v is small."""
        if v.numel() < LARGE:
            return None
        self._kept = [b for b in self._kept if _fits(b, v) or not _is_free(b)]
        for buffer in self._kept:
            if _fits(buffer, v) and _is_free(buffer):
                return buffer.detach()
        fresh = torch.empty_like(v, memory_format=torch.contiguous_format)
        if len(self._kept) < MOST:
            self._kept.append(fresh.detach())
        return fresh


def _fits(buffer: Tensor, v: Tensor) -> bool:
    return buffer.shape == v.shape and buffer.dtype == v.dtype and buffer.device == v.device


def _is_free(buffer: Tensor) -> bool:
    """Whether no other tensor, view or array shares the buffer's memory: it is held here and by this question."""
    storage = buffer.untyped_storage()
    return torch._C._storage_Use_Count(storage._cdata) == 2
