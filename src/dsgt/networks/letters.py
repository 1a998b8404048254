"""Letters from node to node where all nodes live in one process: who hears whom, as tables of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dsgt.core import Matrix
from dsgt.topologies.matrix import to_dense

Numbers = np.ndarray[Any, np.dtype[np.int64]]
NOBODY = -1


class Letters:
    """The neighbours of every node, in rows of one length that are filled up with -1."""

    def __init__(self, W: Matrix) -> None:
        weights = to_dense(W)
        linked = weights != 0
        np.fill_diagonal(linked, val=False)
        hears, tells = _table(linked), _table(linked.T)
        self.links = int(linked.sum())
        """How many letters one exchange sends."""
        self.hears, self.tells = torch.from_numpy(hears), torch.from_numpy(tells)
        nobody = hears == NOBODY
        given = np.take_along_axis(weights, np.where(nobody, 0, hears), axis=1)
        self.weights = torch.from_numpy(np.where(nobody, 0.0, given)[:, :, None])
        me = np.arange(len(weights))[:, None, None]
        place = (tells[hears] == me).argmax(axis=-1) if self.links else hears
        self._place = torch.from_numpy(np.where(nobody, 0, place))
        """Where among the letters of the one who is heard the one to this node is."""
        self._nobody = torch.from_numpy(nobody)[:, :, None]

    def delivered(self, v: Tensor) -> Tensor:
        """(n, 1 or d_out, m) -> (n, d_in, m); zeros where nobody is heard."""
        device = v.device
        place = torch.zeros_like(self._place) if v.shape[1] == 1 else self._place
        heard = v[self.hears.clamp(min=0).to(device), place.to(device)]
        return heard.masked_fill_(self._nobody.to(device), 0)


def _table(linked: np.ndarray[Any, np.dtype[np.bool_]]) -> Numbers:
    """The columns of the nonzeros of every row."""
    rows, columns = np.nonzero(linked)
    counts = linked.sum(axis=1)
    table = np.full((len(linked), int(counts.max(initial=0))), NOBODY, dtype=np.int64)
    table[rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)] = columns
    return table
