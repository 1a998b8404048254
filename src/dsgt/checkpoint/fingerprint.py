"""What a run is, in a few words and numbers: two runs with the same ones compute the same thing."""

from __future__ import annotations

import hashlib
import inspect

import numpy as np
import scipy
import torch
from torch import Tensor

from dsgt.core import Weights, parameters
from dsgt.source import attributes, source, value

SAMPLE = 1 << 20
"""Numbers of a tensor that are looked at one by one."""
_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The bits of real numbers, as whole ones: their sum does not depend on its order."""


def method(algorithm: object, *, common: bool = False) -> str:
    """Its name, and its parameters where it has some, and what else one's own was given; ``common``: only those that
    are the same at all nodes."""
    asked = [f for f in parameters(algorithm) if not (common and f.metadata.get("own"))]
    fields: dict[str, object] = {f.name: getattr(algorithm, f.name) for f in asked}
    given = [f"{name}={_words(v)}" for name, v in fields.items() if v is not None]
    if not type(algorithm).__module__.startswith("dsgt."):
        known = {f.name for f in parameters(algorithm)}
        given += [f"{name}={value(v)}" for name, v in attributes(algorithm).items() if name not in known]
    return f"{type(algorithm).__name__}({', '.join(given)})"


def _words(given: object) -> object:
    """Where a function lies in memory is another place in every process."""
    return f"{given.__qualname__} {source(given)}".strip() if inspect.isroutine(given) else given


def weights(given: Weights) -> str:
    """Of every nonzero weight; dense and sparse forms of one matrix are the same."""
    found = hashlib.sha256()
    if given.random:  # not only the mean
        found.update(repr(given).encode())
    second = given.push.matrices if given.push is not given else ()
    for W in (*given.matrices, *second):
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


def values(t: Tensor) -> str:
    """The shape and dtype of a tensor, a checksum of every row, and a sample of its numbers.

    It costs one pass over the memory. Another number anywhere is found, and rows in another order; only changes within
    one row that cancel in its checksum and miss the sample (every number up to a million, then evenly spread) are not.
    """
    t = t.detach().contiguous()
    whole = t.view(_WHOLE[t.element_size()]) if t.dtype != torch.bool else t
    rows = whole.reshape(len(t) if t.ndim else 1, -1).sum(dim=1, dtype=torch.int64)  # wraps around, in any order
    sample = whole.reshape(-1)[:: max(1, t.numel() // SAMPLE)]
    found = hashlib.sha256()
    for part in (rows, sample):
        found.update(part.cpu().contiguous().numpy().tobytes())
    return f"{str(t.dtype).removeprefix('torch.')} {tuple(t.shape)} {found.hexdigest()[:16]}"
