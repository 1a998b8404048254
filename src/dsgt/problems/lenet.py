"""LeNet: the classic, two 5 x 5 convolutions of 6 and 16 maps, then 120-84-10 (LeCun et al., 1998)."""

from __future__ import annotations

from torch import nn

from dsgt.randomness import seeded


def lenet(*, channels: int = 3, size: int = 32, classes: int = 10, seed: int = 0) -> nn.Sequential:
    """For square images. 32 x 32 is the classic; smaller ones, like the 8 x 8 digits, are padded to keep both pools."""
    padding = 0 if size >= 16 else 2
    first = size + 2 * padding - 4
    second = first // 2 + 2 * padding - 4
    if channels < 1 or classes < 2 or second < 2:
        raise ValueError(
            f"lenet(channels={channels}, size={size}, classes={classes}): images need at least 1 channel, 8 x 8 pixels "
            "and 2 classes"
        )
    flat = 16 * (second // 2) ** 2
    with seeded(seed):  # initial weights, without touching the global stream
        return nn.Sequential(
            nn.Conv2d(channels, 6, 5, padding=padding),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5, padding=padding),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(flat, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, classes),
        )
