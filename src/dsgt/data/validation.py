"""Samples that are held out: nobody learns from them, and what a learning rate is worth is measured on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from dsgt.data.samples import Samples
from dsgt.data.shards import Shards


class HeldOut(NamedTuple):
    train: Samples
    """What is left to learn from."""
    shards: Shards
    validation: Samples


def hold_out(data: Samples, shards: Shards, share: float, seed: int) -> HeldOut:
    """This share of every node's samples, drawn with the seed; each node keeps one at least."""
    draw = np.random.default_rng(seed)
    mixed = [rows[torch.from_numpy(draw.permutation(len(rows))).to(rows.device)] for rows in shards]
    cuts = [min(round(share * len(rows)), len(rows) - 1) for rows in mixed]
    if not any(cuts):
        raise ValueError(
            f"validation is {share:g}, but that is less than one sample of every node: the largest holds "
            f"{int(shards.sizes.max())}; hold out more, or use fewer nodes"
        )
    kept = [rows[cut:] for rows, cut in zip(mixed, cuts, strict=True)]
    held = torch.cat([rows[:cut] for rows, cut in zip(mixed, cuts, strict=True)])
    left = torch.arange(sum(map(len, kept))).split([len(rows) for rows in kept])
    return HeldOut(data.chosen(torch.cat(kept)), Shards.of(left), data.chosen(held))
