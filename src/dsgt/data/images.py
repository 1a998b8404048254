"""Pixels as features."""

from __future__ import annotations

import torch
from torch import Tensor


def standardised(train: Tensor, test: Tensor, *, images: bool, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Bytes (N, channels, height, width) as real numbers, of mean 0 and deviation 1 in every channel of ``train``."""
    grey = torch.arange(256, dtype=torch.float64)
    often = torch.stack([torch.bincount(channel.reshape(-1), minlength=256) for channel in train.unbind(1)]).double()
    often /= often.sum(dim=1, keepdim=True)
    mean = often @ grey
    deviation = (often @ grey**2 - mean**2).clamp(min=1.0).sqrt()  # of one grey only: no deviation to divide by

    def scaled(pixels: Tensor) -> Tensor:
        features = pixels.to(dtype).sub_(mean.to(dtype).view(-1, 1, 1)).div_(deviation.to(dtype).view(-1, 1, 1))
        return features if images else features.flatten(1)

    return scaled(train), scaled(test)
