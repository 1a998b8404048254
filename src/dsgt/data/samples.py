"""Samples: what a data set is here, a tensor of features and a tensor of targets, checked once."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate

from dsgt.factories import a_thing
from dsgt.text import listed


@dataclass(frozen=True, eq=False)
class Samples:
    """N samples: features (N, ...), real; targets (N, ...), whole numbers for classes and real ones for regression.

    One whole number a sample, of any integer type or bool, becomes int64, in which torch's losses take classes.
    """

    features: Tensor
    targets: Tensor
    groups: Tensor | None = None
    """Who made each sample (a writer, a hospital), as a whole number, (N,); where that is known."""

    def __post_init__(self) -> None:
        for name, values in (("features", self.features), ("targets", self.targets)):
            if not isinstance(values, Tensor) or values.is_complex():
                given = values.dtype if isinstance(values, Tensor) else a_thing(values)
                raise ValueError(f"the {name} are {given}; give a tensor or a numpy array of real or whole numbers")
        if self.labelled and self.targets.ndim == 1:
            object.__setattr__(self, "targets", self.targets.long())
        if self.features.ndim < 2 or not self.features.is_floating_point():
            raise ValueError(
                f"features have shape {tuple(self.features.shape)} and dtype {self.features.dtype}, but N samples are "
                "a real tensor (N, ...) of at least two dimensions; use features.float(), and features[:, None] for "
                "one number a sample"
            )
        if self.targets.ndim < 1 or len(self.targets) != len(self.features) or not len(self.features):
            raise ValueError(
                f"there are {len(self.features)} features and targets of shape {tuple(self.targets.shape)}; give one "
                "target per sample, and at least one sample"
            )
        if self.groups is not None and (self.groups.shape != (len(self),) or self.groups.is_floating_point()):
            raise ValueError(
                f"groups are {self.groups.dtype} of shape {tuple(self.groups.shape)}; give one whole number per sample"
            )
        for name, values in (("features", self.features), ("targets", self.targets)):
            if values.is_floating_point() and not values.sum().isfinite():
                bad = ~values.isfinite().flatten(1 if values.ndim > 1 else 0)
                bad = bad.any(dim=1) if bad.ndim > 1 else bad
                if bad.any():
                    raise ValueError(
                        f"the {name} of sample {int(bad.nonzero()[0])} are not finite numbers ({int(bad.sum())} such "
                        "samples in all); drop or repair them first"
                    )
        if self.labelled and (low := int(self.targets.min())) < 0:
            raise ValueError(
                f"sample {int(self.targets.argmin())} has the label {low}, but labels are 0 ... classes - 1"
            )

    def __len__(self) -> int:
        return len(self.features)

    @property
    def labelled(self) -> bool:
        """Whether the targets are classes."""
        return not self.targets.is_floating_point()

    @property
    def classes(self) -> int:
        """One more than the largest label."""
        if not self.labelled or self.targets.ndim != 1:
            raise TypeError(
                f"classes need one whole number per sample, but the targets are {self.targets.dtype} of shape "
                f"{tuple(self.targets.shape)}; use targets.long()"
            )
        return int(self.targets.max()) + 1

    def chosen(self, rows: Tensor) -> Samples:
        """Those at these places."""
        return Samples(self.features[rows], self.targets[rows], None if self.groups is None else self.groups[rows])

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Samples:
        """On this device, real numbers in this precision."""
        targets = self.targets.to(device=device, dtype=None if self.labelled else dtype)
        return Samples(self.features.to(device=device, dtype=dtype), targets, self.groups)


Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
DataLike: TypeAlias = "Samples | tuple[Tensor, Tensor] | tuple[Array, Array] | Dataset[Any]"


def as_samples(data: DataLike) -> Samples:
    """Samples from a pair of tensors or arrays, or from any torch Dataset of (features, target) pairs, read once."""
    if isinstance(data, Samples):
        return data
    if isinstance(data, tuple | list) and len(data) == 2 and all(isinstance(v, Tensor | np.ndarray) for v in data):
        return Samples(*map(torch.as_tensor, data))
    if isinstance(data, tuple):
        return Samples(*data)
    if isinstance(data, TensorDataset) and len(data.tensors) == 2:
        return Samples(*data.tensors)
    if isinstance(data, IterableDataset) or not isinstance(data, Sized):
        raise TypeError(
            f"{type(data).__name__} has no length, but samples are drawn at random: give a map-style Dataset, or "
            "tensors"
        )
    items = [data[i] for i in range(len(data))]
    if not items or not (isinstance(items[0], tuple | list) and len(items[0]) == 2):
        raise TypeError(f"{type(data).__name__} must hold at least one item, each a pair (features, target)")
    for what, values in zip(("features", "target"), zip(*items, strict=True), strict=True):
        shapes = dict.fromkeys(tuple(np.shape(v)) for v in values)
        if len(shapes) > 1:
            raise ValueError(
                f"the {what} of {type(data).__name__} have different shapes, as {listed(map(str, [*shapes][:2]))}; let "
                "every item have the same, padded or cut"
            )
    features, targets = default_collate(items)
    return Samples(features if features.ndim > 1 else features[:, None], targets)
