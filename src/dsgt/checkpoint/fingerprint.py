"""What a run is, in a few words and numbers: two runs with the same ones compute the same thing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass

import numpy as np
import scipy.sparse
from torch import Tensor

from dsgt.core import Algorithm, Matrix, S


def method(algorithm: Algorithm[S]) -> str:
    """Its name, and its parameters where it has some."""
    names: list[str] = [f.name for f in fields(algorithm)] if is_dataclass(algorithm) else []
    return f"{type(algorithm).__name__}({', '.join(f'{name}={getattr(algorithm, name)}' for name in names)})"


def weights(matrices: Sequence[Matrix]) -> str:
    """Of every nonzero weight; dense and sparse forms of one matrix are the same."""
    found = hashlib.sha256()
    for W in matrices:
        csr = scipy.sparse.csr_array(W, copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        for part in (csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data):
            found.update(part.tobytes())
    return found.hexdigest()[:16]


def start(x: Tensor) -> str:
    """The shape, the dtype and the numbers of the models that a run starts from."""
    raw = x.detach().cpu().double().contiguous().numpy().tobytes()
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)} {hashlib.sha256(raw).hexdigest()[:16]}"
