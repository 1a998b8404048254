"""Memory that is used again. Fresh memory costs more than the arithmetic on it: the kernel must clear every page."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from functools import cache
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

LARGE_BYTES = 1 << 19
"""Size of a tensor from which on the allocator gives freed memory back to the kernel, and fresh memory is slow."""
MOST_KEPT = 16
"""How many tensors are kept, at most: as many as were needed at one moment."""
FREED_AFTER = 64
"""An unused buffer is freed after 64 to 128 further requests."""
SWITCH = "DSGT_ALLOCATOR"
"""The environment variable that leaves the system's memory as it is, if it is "off"."""
MADV_HUGEPAGE, HUGE_PAGE = 14, 1 << 21  # mman.h, on Linux

_kept_anywhere: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
"""By address: what all ``Buffers`` keep."""


def is_large(v: Tensor) -> bool:
    """Whether v's memory is worth keeping. A GPU's allocator keeps it by itself."""
    return v.is_cpu and v.nbytes >= LARGE_BYTES


def room_for(v: Tensor) -> Tensor:
    """Uninitialised memory like v's, for what is read in every round of a run."""
    room = _empty_like(v)
    _ask_for_huge_pages(room)
    return room


class Buffers:
    """Hands out uninitialised tensors, and the same memory again once nobody holds any part of it."""

    @classmethod
    def shared(cls) -> Buffers:
        """The same ones for all who hold them at a time: what one does not need any more serves another."""
        with _one_at_a_time:
            return _shared.setdefault("", cls())

    def __init__(self, *, apart: bool = False) -> None:
        """``apart``: in pages of their own, beside a script that allocates and frees in every round. Otherwise in the
        heap, where what was freed before serves them."""
        self._apart = apart
        self._one_at_a_time = Lock()
        self._kept: dict[int, Tensor] = {}  # by address
        self._given: dict[int, int] = {}  # the number of the request that it was given to last
        self._requests = 0

    def scratch(self, v: Tensor) -> Tensor:
        """An uninitialised tensor of v's shape, dtype and device."""
        if v.nbytes < LARGE_BYTES or (v.requires_grad and torch.is_grad_enabled()):
            return _empty_like(v)
        with self._one_at_a_time:
            return self._used_again(v)

    def _used_again(self, v: Tensor) -> Tensor:
        self._requests += 1
        if self._requests % FREED_AFTER == 0:
            self._free()
        for at, buffer in self._kept.items():
            if _fits(buffer, v) and not _holders(buffer):
                self._given[at] = self._requests
                return buffer.detach()
        if len(self._kept) == MOST_KEPT:
            return _empty_like(v)
        fresh = (_pages_like if self._apart else _empty_like)(v)
        at, kept = fresh.data_ptr(), fresh.detach()
        self._kept[at], self._given[at] = kept, self._requests
        _kept_anywhere[at] = kept
        _ask_for_huge_pages(kept)
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
        """Whether v's memory came from any ``Buffers`` and no other tensor, view or array shares it, by its reference
        count.

        The count does not see a second reference to the tensor object v itself. So whoever hands v to somebody who may
        read it later must hand out another tensor object, ``v.detach()``.
        """
        buffer = _kept_anywhere.get(v.data_ptr())
        return buffer is not None and _fits(buffer, v) and _holders(buffer) == 1


_shared: WeakValueDictionary[str, Buffers] = WeakValueDictionary()
_one_at_a_time = Lock()


def is_switched_off() -> bool:
    return os.environ.get(SWITCH, "").lower() in ("off", "0", "false")


def _empty_like(v: Tensor) -> Tensor:
    return torch.empty_like(v, memory_format=torch.contiguous_format)


def _pages_like(v: Tensor) -> Tensor:
    """An uninitialised tensor like v, in pages of its own. In a heap whose freed memory is kept (engine.allocator), one
    that lives long lies between others that come and go and leaves gaps too small for the next: glibc before 2.38 asks
    for some bytes more than it needs."""
    if not v.is_cpu or sys.platform != "linux" or is_switched_off():
        return _empty_like(v)
    pages = mmap.mmap(-1, v.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    storage = torch.frombuffer(pages, dtype=v.dtype).untyped_storage()
    stride = torch.empty(v.shape, device="meta").stride()
    return torch.empty(0, dtype=v.dtype).set_(storage, 0, v.shape, stride)  # a view would hold what it is a view of


@cache
def _madvise() -> Any:
    """The system's function; None where there is none, or it is not wanted."""
    if sys.platform != "linux" or is_switched_off():
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function


def _ask_for_huge_pages(v: Tensor) -> None:
    """Passes over large memory spend a fifth of their time on looking up small pages. A wish, which may be denied."""
    begin = -(-v.data_ptr() // HUGE_PAGE) * HUGE_PAGE
    length = (v.data_ptr() + v.nbytes - begin) // HUGE_PAGE * HUGE_PAGE
    if v.is_cpu and length > 0 and (advise := _madvise()) is not None:
        advise(begin, length, MADV_HUGEPAGE)


def _fits(buffer: Tensor, v: Tensor) -> bool:
    alike = buffer.shape == v.shape and buffer.dtype == v.dtype and buffer.device == v.device
    return alike and buffer.is_inference() == torch.is_inference_mode_enabled()  # another mode may not write into it


def _holders(buffer: Tensor) -> int:
    """How many other tensors, views and arrays share the buffer's memory."""
    storage = buffer.untyped_storage()
    return int(torch._C._storage_Use_Count(storage._cdata)) - 2  # the buffer itself, and this question
