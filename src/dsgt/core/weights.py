"""Who mixes with whom in round k, and how much of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy

from dsgt.core.parameters import parameters

Matrix: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]] | scipy.sparse.csr_array"
"""A weight matrix: W[i, j] is the weight node i gives to what it hears from node j."""


class Weights(ABC):
    """Who mixes with whom in round k, and how much of it; the same at every node. Where nodes live is a network's."""

    random: ClassVar[bool] = False
    """Whether chance decides: ``matrices`` then holds the mean of all that may come, and nothing else."""

    all_reduce = True
    """Whether a mixing that averages everybody may be one all-reduce. Otherwise nodes send to their neighbours, as
    everywhere else: methods are compared like that, since flows and packed vectors cannot travel in a sum."""

    @property
    @abstractmethod
    def matrices(self) -> Sequence[Matrix]:
        """One pass through them where they repeat. Whether the network is connected and how fast it agrees is asked of
        these."""

    @abstractmethod
    def at(self, k: int) -> Matrix:
        """The matrix of round k; for a matrix that comes again the same object, so that a network prepares it once."""

    @property
    def push(self) -> Weights:
        """Those of the second matrix, for methods that mix models with one and trackers with another."""
        return self

    @property
    def single(self) -> Sequence[Matrix]:
        """Some that stand for each one that may come in their row sums, column sums, symmetry and lowest eigenvalue."""
        return self.matrices

    @property
    def changes(self) -> bool:
        return self.random or len(self.matrices) > 1

    @property
    def nodes(self) -> int:
        return int(self.matrices[0].shape[0])

    def __repr__(self) -> str:
        """The name, the numbers and the weights it is made of: what tells it from others of the same matrices."""
        values = {f.name: getattr(self, f.name) for f in parameters(self)}
        numbers = [f"{name}={value}" for name, value in values.items() if isinstance(value, int | float | Weights)]
        return f"{type(self).__name__}({', '.join(numbers)})"
