"""The handwritten digits that ship with scikit-learn: 1,797 images of 8 x 8 pixels, real and always at hand."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from dsgt.data.samples import Samples
from dsgt.extras import explained

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def digits(
    *, test: float = 0.2, seed: int = 0, images: bool = False, dtype: torch.dtype = torch.float32
) -> tuple[Samples, Samples]:
    """Training and test samples: pixels in [0, 1], as vectors (N, 64) or as images (N, 1, 8, 8)."""
    if not 0 < test < 1:
        raise ValueError(f"test is {test}, but it is the share of samples kept for testing: 0 < test < 1")
    pixels, labels = _read()
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    features = torch.from_numpy(pixels)[order].to(dtype) / 16
    if images:
        features = features.reshape(-1, 1, 8, 8)
    targets = torch.from_numpy(labels)[order].long()
    kept = round(test * len(labels))
    return Samples(features[kept:], targets[kept:]), Samples(features[:kept], targets[:kept])


def _read() -> tuple[Array, Array]:
    """Pixels (N, 64) and labels (N,), from scikit-learn's own file: importing scikit-learn would take a second of every
    process."""
    package = find_spec("sklearn")
    if package is not None and package.origin is not None:
        path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
        if path.is_file():
            with gzip.open(path, "rt") as file:
                table = np.loadtxt(file, delimiter=",")
            return table[:, :-1], table[:, -1].astype(np.int64)
    with explained():  # a release that keeps its file elsewhere, or none at all
        from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return pixels, labels
