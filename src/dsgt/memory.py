"""Keep freed memory.

A round frees and asks for the same few large tensors again. Where the C library gives them back to the kernel in
between, clearing fresh pages costs two to three times the arithmetic (benchmarks/simulator.py).
"""

from __future__ import annotations

import ctypes
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST_KEPT = 32 << 20  # bytes: what glibc accepts at most
KEPT_IN_ALL = 1 << 30


@cache
def keep_freed_memory() -> bool:
    """Tell glibc, once and for this process, to keep up to a gigabyte of freed memory; False on other C libraries."""
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - only glibc has it, and only glibc knows these numbers
        kept = libc.mallopt(M_TRIM_THRESHOLD, KEPT_IN_ALL) and libc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
    except (OSError, AttributeError, TypeError):
        return False
    return bool(kept)
