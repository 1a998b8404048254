"""Augmentation: a function of a batch of features (b, ...) and a seeded generator, from which alone it may draw.

The generator's seed is a function of (seed, node, round), so a node sees the same images in the simulator and in a
process of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from dsgt.factories import Factory, is_factory, lookup, pairs
from dsgt.text import nearest


def flip(features: Tensor, generator: torch.Generator) -> Tensor:
    """Images (b, channels, height, width), each mirrored left to right with probability 1/2."""
    _images("flip", features)
    mirrored = torch.rand(len(features), generator=generator, device=features.device) < 0.5
    return torch.where(mirrored.view(-1, 1, 1, 1), features.flip(-1), features)


def crop(features: Tensor, generator: torch.Generator, *, padding: int = 4) -> Tensor:
    """Images (b, channels, height, width), each moved by up to ``padding`` pixels in both directions; zeros come in."""
    _images("crop", features)
    b, _, height, width = features.shape
    wide = pad(features, (padding,) * 4)
    down, right = torch.randint(0, 2 * padding + 1, (2, b, 1), generator=generator, device=features.device)
    rows = down + torch.arange(height, device=features.device)
    columns = right + torch.arange(width, device=features.device)
    each = torch.arange(b, device=features.device)[:, None, None]
    return wide[each, :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def crop_flip(features: Tensor, generator: torch.Generator, *, padding: int = 4) -> Tensor:
    """``crop``, then ``flip``: what is usual for CIFAR."""
    return flip(crop(features, generator, padding=padding), generator)


def _images(name: str, features: Tensor) -> None:
    if features.ndim != 4:
        raise ValueError(f"{name} is for images (batch, channels, height, width); leave it out for other samples")


AUGMENTATIONS: dict[str, Callable[..., Tensor]] = {"flip": flip, "crop": crop, "crop-flip": crop_flip}


def named_augmentation(given: str | Factory | None) -> Callable[[Tensor, torch.Generator], Tensor] | None:
    """By name, with arguments as in ``crop:padding=2``, or your own: ``module:name``, the function itself."""
    if given is None:
        return None
    if isinstance(given, str):
        name, colon, arguments = given.partition(":")
        if name in AUGMENTATIONS:
            found = Factory(given, "augmentation", AUGMENTATIONS[name], pairs(given, arguments) if colon else {})
        elif is_factory(given):
            found = lookup(given, "augmentation")
        else:
            raise ValueError(nearest(given, AUGMENTATIONS, "augmentation") + "; or your own, module:name")
    else:
        found = given
    if not callable(found.found):
        raise ValueError(
            f"the augmentation {found.text!r} is a {type(found.found).__name__}; expected a function of a batch and a "
            "generator"
        )
    return partial(found.found, **found.arguments) if found.given else found.found
