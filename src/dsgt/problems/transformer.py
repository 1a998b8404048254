"""A small transformer that reads an image as a row of patches (Dosovitskiy et al., 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from dsgt.randomness import seeded


def transformer(
    *,
    channels: int = 3,
    size: int = 32,
    classes: int = 10,
    patch: int = 4,
    width: int = 64,
    depth: int = 2,
    heads: int = 4,
    dropout: float = 0.0,
    seed: int = 0,
) -> nn.Module:
    """For square images whose ``size`` is a multiple of ``patch``; the mean over the patches is classified."""
    if min(channels, classes, patch, depth, heads) < 1 or size % patch or width % heads or not 0 <= dropout < 1:
        raise ValueError(
            f"transformer(size={size}, patch={patch}, width={width}, heads={heads}, dropout={dropout}): the size is a "
            "multiple of the patch, the width one of the heads, and 0 <= dropout < 1"
        )
    with seeded(seed):  # initial weights, without touching the global stream
        return Transformer(channels, (size // patch) ** 2, classes, patch, width, depth, heads, dropout)


class Transformer(nn.Module):
    def __init__(
        self, channels: int, length: int, classes: int, patch: int, width: int, depth: int, heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.Sequential(*(Layer(width, heads, dropout) for _ in range(depth)))
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).mT + self.places
        y: Tensor = self.out(self.layers(x).mean(dim=-2))
        return y


class Layer(nn.Module):
    """Attention, then two linear layers, each added to what it reads."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.asks = nn.Linear(width, 3 * width)
        self.joins = nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)
        self.thinks = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        *lead, length, width = x.shape
        q, k, v = self.asks(self.before(x)).reshape(*lead, length, 3, self.heads, -1).movedim(-2, -4).unbind(-2)
        seen = scaled_dot_product_attention(q, k, v).movedim(-3, -2).reshape(*lead, length, width)
        x = x + self.drop(self.joins(seen))
        y: Tensor = x + self.thinks(x)
        return y
