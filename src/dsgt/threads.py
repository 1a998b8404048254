"""How many cores torch uses, and which threads must not disturb others.

Small work runs on one core: a second one gains little, and where another program keeps it busy the threads wait for
each other, 5 to 20 times longer than the work takes (measured).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def do_not_disturb() -> None:
    """From now on this thread, and every thread that it starts, waits for a core when it wakes up, instead of pushing
    away one that computes. Its share of the cores stays the same. Does nothing where the system knows no such thing."""
    _change(to="SCHED_BATCH")


@contextmanager
def undisturbing_threads() -> Iterator[None]:
    """So are the threads that are started in here; this one is itself again afterwards."""
    changed = _change(to="SCHED_BATCH")
    try:
        yield
    finally:
        if changed:
            _change(to="SCHED_OTHER")


def _change(*, to: str) -> bool:
    """Whether the policy of this thread was one of the two ordinary ones, another, and could be changed."""
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
