"""ResNet-20 for small images: 9 blocks of two 3 x 3 convolutions in three stages (He et al., 2016, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from dsgt.randomness import seeded

Norm = Callable[[int], nn.Module]


def resnet20(
    *, channels: int = 3, classes: int = 10, norm: str = "group", groups: int = 2, width: int = 16, seed: int = 0
) -> nn.Sequential:
    """``norm`` is batch, as in the paper, or group: ``groups`` groups of channels, whose statistics are a sample's own,
    so that nodes with different data compute the same function. 16, 32 and 64 maps for the ``width`` of 16."""
    norms: dict[str, Norm] = {"batch": nn.BatchNorm2d, "group": lambda maps: nn.GroupNorm(groups, maps)}
    if norm not in norms:
        raise ValueError(f"norm is {norm!r}; expected {' or '.join(norms)}")
    if min(channels, classes, groups) < 1 or width < 2 or width % groups:
        raise ValueError(
            f"resnet20(channels={channels}, classes={classes}, groups={groups}, width={width}): the width is at least "
            "2 and a multiple of the groups"
        )
    with seeded(seed):  # initial weights, without touching the global stream
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1, bias=False), norms[norm](width), nn.ReLU()]
        maps = width
        for stage, out in enumerate((width, 2 * width, 4 * width)):
            for block in range(3):
                layers.append(Block(maps, out, 2 if stage and not block else 1, norms[norm]))
                maps = out
        made = PixelByPixel(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(maps, classes))
        for layer in made.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        return made


class PixelByPixel(nn.Sequential):
    """With a pixel's maps beside each other in memory ("channels last"), which its convolutions compute faster."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        for layer in self:
            x = layer(x)
        return x


class Block(nn.Module):
    """x + f(x). Where f halves the image, x is every second pixel of itself, and zeros for the new maps (option A)."""

    def __init__(self, maps: int, out: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.stride, self.new = stride, out - maps
        self.residual = nn.Sequential(
            nn.Conv2d(maps, out, 3, stride=stride, padding=1, bias=False),
            norm(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            norm(out),
        )

    def forward(self, x: Tensor) -> Tensor:
        same = x if self.stride == 1 else x[..., :: self.stride, :: self.stride]
        if self.new:
            same = pad(same, (0, 0, 0, 0, self.new // 2, self.new - self.new // 2))
        return torch.relu(self.residual(x) + same)
