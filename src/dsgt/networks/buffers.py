"""Memory that is used again. Fresh memory costs more than the arithmetic on it: the kernel must clear every page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

LARGE = 1 << 18
"""Numbers in a tensor from which on the allocator gives freed memory back to the kernel, and fresh memory is slow."""
MOST = 16
"""How many tensors are kept, at most: as many as were needed at one moment."""


class Buffers:
    """Hands out uninitialised tensors, and the same memory again once nobody holds any part of it."""

    def __init__(self) -> None:
        self._kept: list[Tensor] = []

    def like(self, v: Tensor) -> Tensor:
        """A tensor of v's shape, dtype and device, whatever its size."""
        large = self.large(v)
        return torch.empty_like(v, memory_format=torch.contiguous_format) if large is None else large

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


class Reusing(TorchFunctionMode):
    """Within it, sums and products of large tensors are written into memory that is used again.

    So a method is written as an equation, ``s.x - lr * y``, and runs as if it had named its temporary vectors."""

    def __init__(self, scratch: Callable[[Tensor], Tensor]) -> None:
        """scratch: a tensor -> memory for another one like it."""
        super().__init__()
        self._scratch = scratch

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        into = _INTO.get(func)
        if into is None or kwargs or not _elementwise(*args):
            return func(*args, **(kwargs or {}))
        return into(*args, out=self._scratch(args[0]))


_INTO: dict[Any, Callable[..., Tensor]] = {
    Tensor.add: torch.add,
    Tensor.sub: torch.sub,
    Tensor.mul: torch.mul,
    Tensor.div: torch.div,
}
"""What the operators of Python become, and the same with an ``out``."""


def _elementwise(a: Any, b: Any) -> bool:
    """Whether the result of an operation on them is like a, and large."""
    if not (isinstance(a, Tensor) and a.is_floating_point() and a.numel() >= LARGE):
        return False
    return a.shape == b.shape and a.dtype == b.dtype if isinstance(b, Tensor) else isinstance(b, int | float)
