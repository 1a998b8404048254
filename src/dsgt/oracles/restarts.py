"""When SVRG and SARAH look at all samples again: every so many rounds, or at random; in the same rounds at all."""

from __future__ import annotations

from dsgt import randomness
from dsgt.core import Local
from dsgt.oracles.table import RESTARTS


def restarts(f: Local, k: int, every: int, *, loopless: bool) -> bool:
    """Always in the first round; then in every ``every``-th, or with probability 1/every in each."""
    if not loopless or k == 0:
        return k % every == 0
    return bool(randomness.uniform(f.seed, RESTARTS, k) < 1 / every)
