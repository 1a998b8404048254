"""W v for a W that is mostly zeros: row by row, by SciPy's own loop, which beats torch's at every size that was
measured, and writes where it is told (benchmarks/products.py prints the map)."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
import scipy

from dsgt.core import Matrix
from dsgt.threads import share_out

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

LATER = 1000
"""Nanoseconds by which a sparse product starts later than a dense one."""
PER_WEIGHT, PER_WEIGHT_AND_NUMBER = 3.0, 0.1
"""Nanoseconds of a sparse product: for every nonzero weight, and for each of the m numbers that it multiplies."""
PER_ENTRY, PER_ENTRY_AND_NUMBER = 1.3, 0.024
"""Of a dense product: for every entry of W at least, and for each number."""
IN_CACHE = 1 << 18
"""Numbers of W v that are made at a time where they are added to something."""
A_THREADS_WORK = 1 << 21
"""Multiplications from which on a second thread pays."""


def nonzeros(W: Matrix) -> int:
    return int(np.count_nonzero(W)) if isinstance(W, np.ndarray) else int(W.nnz)


@cache  # small rounds ask in every product
def is_faster(nodes: int, nonzero: int, m: int) -> bool:
    """Whether W v is faster by its nonzero weights than by BLAS, for v of (n, m). A function of these numbers and not
    of a clock: the two round differently, and a run must be able to repeat itself."""
    sparse = LATER + nonzero * (PER_WEIGHT + PER_WEIGHT_AND_NUMBER * m)
    return sparse < nodes * nodes * max(PER_ENTRY, PER_ENTRY_AND_NUMBER * m)


class SparseProduct:
    """W in rows. Every row of W v is computed by itself, so the numbers do not depend on how many threads there are."""

    def __init__(self, W: Matrix, dtype: np.dtype[Any]) -> None:
        csr = scipy.sparse.csr_array(W)
        index = np.int32 if csr.nnz < np.iinfo(np.int32).max else np.int64
        self._begin, self._column = csr.indptr.astype(index), csr.indices.astype(index)
        self._weight = csr.data.astype(dtype)
        self._nodes = csr.shape[0]

    def times(self, v: Array, out: Array) -> None:
        """out = W v."""
        v = np.ascontiguousarray(v)
        if not out.flags.c_contiguous:
            made = np.empty(v.shape, v.dtype)
            self.times(v, made)
            out[...] = made
            return

        def some(first: int, last: int) -> None:
            out[first:last] = 0
            self._add(first, last, v, out[first:last])

        share_out(some, self._nodes, most=self._threads(v))

    def add_times(self, v: Array, total: Array) -> None:
        """total += W v, with the bits of a product that is made first and added then."""
        v = np.ascontiguousarray(v)
        step = max(1, IN_CACHE // max(1, v.shape[1]))

        @np.errstate(all="ignore")  # torch does not warn either, and a thread has a state of its own
        def some(first: int, last: int) -> None:
            made = np.empty((min(step, last - first), v.shape[1]), v.dtype)
            for begin in range(first, last, step):
                part = made[: min(step, last - begin)]
                part[...] = 0
                self._add(begin, begin + len(part), v, part)
                np.add(total[begin : begin + len(part)], part, total[begin : begin + len(part)])

        share_out(some, self._nodes, most=self._threads(v))

    def _add(self, first: int, last: int, v: Array, out: Array) -> None:
        """out += these rows of W v."""
        begin = self._begin[first : last + 1]
        # what W @ v calls, without its fresh memory
        csr_matvecs = scipy.sparse._sparsetools.csr_matvecs
        csr_matvecs(last - first, self._nodes, v.shape[1], begin, self._column, self._weight, v.ravel(), out.ravel())

    def _threads(self, v: Array) -> int:
        return 1 + len(self._weight) * int(v.shape[1]) // A_THREADS_WORK
