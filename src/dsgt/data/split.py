"""Samples kept for testing, where nobody says which."""

from __future__ import annotations

import numpy as np
import torch

from dsgt.data.samples import Samples

Pair = tuple[Samples, Samples | None]


def split(data: Samples, test: float, seed: int) -> Pair:
    """This share for testing, drawn with this seed; none where it is 0."""
    if not 0 <= test < 1:
        raise ValueError(f"test is {test}, but it is the share of samples kept for testing: 0 <= test < 1")
    if seed < 0:
        raise ValueError(f"seed is {seed}; seeds are whole numbers from 0 on")
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(data)))
    kept = round(test * len(data))
    train, rest = (data.chosen(i) if len(i) else None for i in (order[kept:], order[:kept]))
    if train is None:
        raise ValueError(f"of {len(data)} samples {kept} are kept for testing, and none is left to train with")
    return train, rest
