"""The handwritten digits that ship with scikit-learn: 1,797 images of 8 x 8 pixels, real and always at hand."""

from __future__ import annotations

import numpy as np
import torch

from dsgt.data.samples import Samples
from dsgt.extras import explained


def digits(
    *, test: float = 0.2, seed: int = 0, images: bool = False, dtype: torch.dtype = torch.float32
) -> tuple[Samples, Samples]:
    """Training and test samples: pixels in [0, 1], as vectors (N, 64) or as images (N, 1, 8, 8)."""
    if not 0 < test < 1:
        raise ValueError(f"test is {test}, but it is the share of samples kept for testing: 0 < test < 1")
    with explained():
        from sklearn.datasets import load_digits  # here, because it takes a second that most programs need not spend

    pixels, labels = load_digits(return_X_y=True)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    features = torch.from_numpy(pixels)[order].to(dtype) / 16
    if images:
        features = features.reshape(-1, 1, 8, 8)
    targets = torch.from_numpy(labels)[order].long()
    kept = round(test * len(labels))
    return Samples(features[kept:], targets[kept:]), Samples(features[:kept], targets[:kept])
