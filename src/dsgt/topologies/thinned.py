"""A weight matrix some of whose messages do not arrive: what they would have weighed stays with who would have heard
them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from dsgt.core import Matrix
from dsgt.topologies.assemble import from_entries, kept_sparse
from dsgt.topologies.matrix import MatrixLike, as_matrix

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Thinned:
    """The messages of W, number e from node ``columns[e]`` to node ``rows[e]``, and W where some of them are lost."""

    W: Matrix

    @property
    def nodes(self) -> int:
        return int(self.W.shape[0])

    @cached_property
    def _entries(self) -> tuple[Array, Array, Array]:
        found = scipy.sparse.coo_array(self.W)
        found.eliminate_zeros()
        between = found.row != found.col
        return found.row[between].astype(np.int64), found.col[between].astype(np.int64), found.data[between]

    @property
    def rows(self) -> Array:
        return self._entries[0]

    @property
    def columns(self) -> Array:
        return self._entries[1]

    @property
    def weights(self) -> Array:
        return self._entries[2]

    @cached_property
    def _sparse(self) -> tuple[scipy.sparse.csr_array, Array, Array] | None:
        """W with a place for every node's own weight, zero or not; where in its data each message is, and each own
        weight. None where W is better kept dense."""
        n, size = self.nodes, len(self.rows)
        if not kept_sparse(n, size + n):
            return None
        own = np.arange(n)
        order = np.lexsort((np.append(self.columns, own), np.append(self.rows, own)))
        data = np.append(self.weights, self.W.diagonal())[order]
        starts = np.append(0, np.cumsum(1 + np.bincount(self.rows, minlength=n)))
        columns = np.append(self.columns, own)[order].astype(np.int32)
        csr = scipy.sparse.csr_array((data, columns, starts.astype(np.int32)), shape=(n, n))
        place = np.empty(size + n, dtype=np.intp)
        place[order] = np.arange(size + n)
        return csr, place[:size], place[size:]

    def where(self, arrives: Array) -> Matrix:
        """W with the messages that arrive. Where all of them do, it is W itself."""
        if arrives.all():
            return self.W
        lost = np.flatnonzero(~arrives)
        home = np.bincount(self.rows[lost], self.weights[lost], minlength=self.nodes)
        if self._sparse is None:
            W = np.array(self.W) if isinstance(self.W, np.ndarray) else self.W.toarray()
            W[self.rows[lost], self.columns[lost]] = 0
            W[np.diag_indices(self.nodes)] += home
            return W
        csr, places, own = self._sparse
        data, stays = csr.data.copy(), np.ones(csr.nnz, dtype=bool)
        data[own] += home
        stays[places[lost]] = False
        stay = np.flatnonzero(stays)
        starts = np.searchsorted(stay, csr.indptr).astype(np.int32)
        return scipy.sparse.csr_array((data[stay], csr.indices[stay], starts), shape=csr.shape)

    def mean(self, arrives: float) -> Matrix:
        """The mean over rounds in which each message arrives with this probability."""
        n, own = self.nodes, np.arange(self.nodes)
        home = self.W.diagonal() + (1 - arrives) * np.bincount(self.rows, self.weights, minlength=n)
        rows, columns = np.append(self.rows, own), np.append(self.columns, own)
        return from_entries(n, rows, columns, np.append(arrives * self.weights, home))


def thinnable(W: MatrixLike, who: str) -> Thinned:
    """W, after the check that a weight may go home: from a negative one a node would move away from its neighbours."""
    thinned = Thinned(as_matrix(W))
    if len(thinned.rows) and thinned.weights.min() < 0:
        e = int(thinned.weights.argmin())
        raise ValueError(
            f"{who} was given W[{thinned.rows[e]}, {thinned.columns[e]}] = {thinned.weights[e]:.4g}; where messages "
            "are missing only weights >= 0 keep the nodes from moving apart: use metropolis or fmmc weights"
        )
    return thinned
