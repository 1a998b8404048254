"""How many cores torch uses.

All but the largest factorisations run on one core: a second one gains little, and where another program keeps it busy
its threads wait for each other, 5 to 20 times longer than the work takes (measured).
"""

from __future__ import annotations

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
