"""Keep freed memory in this process.

A round frees and asks for the same few large tensors again. By default glibc serves them with mmap and gives them back
to the kernel in between, and the page faults of fresh memory cost two to three times the arithmetic on it
(docs/engine.md).
"""

from __future__ import annotations

import ctypes
from functools import cache

from dsgt.buffers import is_switched_off

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h
KEPT_BYTES = 1 << 30
"""Freed memory at the end of the heap beyond this goes back to the kernel."""


@cache
def keep_freed_memory() -> bool:
    """Tell glibc, once and for this whole process, to keep freed memory; with ``DSGT_ALLOCATOR=off`` it is left as it
    is. False then, and on other C libraries."""
    if is_switched_off():
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - only glibc has it, and only glibc knows these numbers
        kept = libc.mallopt(M_MMAP_MAX, 0) and libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    except (OSError, AttributeError, TypeError):
        return False
    return bool(kept)


def give_back() -> None:
    """Give what this process has freed to the kernel, once. Vectors that were needed only to begin would stay for ever:
    those that come and go later do not fit into their places."""
    if keep_freed_memory():
        ctypes.CDLL(None).malloc_trim(0)
