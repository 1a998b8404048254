"""How many threads torch uses, and the scheduling policy of threads that move messages.

Small work runs on one thread: a second one gains little, and where another program keeps its core busy the threads wait
for each other, 5 to 20 times longer than the work takes (measured).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

import torch


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for torch's operations inside this block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def share_out(work: Callable[[int, int], None], count: int, *, most: int | None = None) -> None:
    """``work(first, last)`` for parts of 0 ... count - 1, as many as torch has threads, or fewer.

    For work that lets go of Python's lock, as NumPy's and SciPy's products do."""
    parts = count if most is None else min(count, most)
    if parts < 2 or (parts := min(parts, torch.get_num_threads())) < 2:
        work(0, count)
        return
    cuts = [count * i // parts for i in range(parts + 1)]
    list(_pool(parts).map(work, cuts[:-1], cuts[1:]))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="dsgt-part")


def do_not_disturb() -> None:
    """On Linux, give this thread and every thread that it starts the policy SCHED_BATCH: when it wakes up it waits for
    a core instead of preempting a thread that computes. Its share of the cores stays the same."""
    _change(to="SCHED_BATCH")


@contextmanager
def undisturbing_threads() -> Iterator[None]:
    """Threads started inside this block get SCHED_BATCH; the calling thread's policy is restored at the end."""
    changed = _change(to="SCHED_BATCH")
    try:
        yield
    finally:
        if changed:
            _change(to="SCHED_OTHER")


def _change(*, to: str) -> bool:
    """Whether this thread had the other one of the two ordinary policies, and now has this one."""
    if sys.platform != "linux":
        return False
    new = getattr(os, to)
    try:
        if os.sched_getscheduler(0) not in {os.SCHED_OTHER, os.SCHED_BATCH} - {new}:
            return False
        os.sched_setscheduler(0, new, os.sched_param(0))
    except OSError:  # a container may forbid it
        return False
    return True
