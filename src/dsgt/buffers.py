"""Memory that is used again. Fresh memory costs more than the arithmetic on it: the kernel must clear every page."""

from __future__ import annotations

import torch
from torch import Tensor

LARGE_BYTES = 1 << 19
"""Size of a tensor from which on the allocator gives freed memory back to the kernel, and fresh memory is slow."""
MOST_KEPT = 16
"""How many tensors are kept, at most: as many as were needed at one moment."""
FREED_AFTER = 64
"""An unused buffer is freed after 64 to 128 further requests."""


def is_large(v: Tensor) -> bool:
    """Whether v's memory is worth keeping. A GPU's allocator keeps it by itself."""
    return v.is_cpu and v.nbytes >= LARGE_BYTES


class Buffers:
    """Hands out uninitialised tensors, and the same memory again once nobody holds any part of it."""

    def __init__(self) -> None:
        self._kept: dict[int, Tensor] = {}  # by address
        self._given: dict[int, int] = {}  # the number of the request that it was given to last
        self._requests = 0

    def scratch(self, v: Tensor) -> Tensor:
        """An uninitialised tensor of v's shape, dtype and device."""
        if v.nbytes < LARGE_BYTES or (v.requires_grad and torch.is_grad_enabled()):
            return torch.empty_like(v, memory_format=torch.contiguous_format)
        self._requests += 1
        if self._requests % FREED_AFTER == 0:
            self._free()
        for at, buffer in self._kept.items():
            if _fits(buffer, v) and not _holders(buffer):
                self._given[at] = self._requests
                return buffer.detach()
        fresh = torch.empty_like(v, memory_format=torch.contiguous_format)
        if len(self._kept) < MOST_KEPT:
            self._kept[fresh.data_ptr()], self._given[fresh.data_ptr()] = fresh.detach(), self._requests
        return fresh

    def _free(self) -> None:
        """Those that nobody holds and nobody has been given since the last time."""
        for at, last in list(self._given.items()):
            if last <= self._requests - FREED_AFTER and not _holders(self._kept[at]):
                del self._kept[at], self._given[at]

    def release(self, v: Tensor) -> None:
        """Take v's memory away from v, which nobody will read any more. Nothing happens where it did not come from here
        or where another tensor holds it too."""
        buffer = self._kept.get(v.data_ptr())
        if buffer is not None and _fits(buffer, v) and _holders(buffer) == 1 and not v.is_inference():
            v.data = v.new_empty(0)

    def may_overwrite(self, v: Tensor) -> bool:
        """Whether v's memory came from here and no other tensor, view or array shares it, by its reference count.

        The count does not see a second reference to the tensor object v itself. So whoever hands v to somebody who may
        read it later must hand out another tensor object, ``v.detach()``.
        """
        buffer = self._kept.get(v.data_ptr())
        return buffer is not None and _fits(buffer, v) and _holders(buffer) == 1


def _fits(buffer: Tensor, v: Tensor) -> bool:
    alike = buffer.shape == v.shape and buffer.dtype == v.dtype and buffer.device == v.device
    return alike and buffer.is_inference() == torch.is_inference_mode_enabled()  # another mode may not write into it


def _holders(buffer: Tensor) -> int:
    """How many other tensors, views and arrays share the buffer's memory."""
    storage = buffer.untyped_storage()
    return int(torch._C._storage_Use_Count(storage._cdata)) - 2  # the buffer itself, and this question
