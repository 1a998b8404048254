"""Data sets and partitions as a person names them, on a command line or in a file of settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import torch

from dsgt.data import partition
from dsgt.data.cifar import cifar10, cifar100
from dsgt.data.digits import digits
from dsgt.data.femnist import femnist
from dsgt.data.mnist import fashion_mnist, mnist
from dsgt.data.own_shards import own_shards
from dsgt.data.samples import Samples
from dsgt.data.shards import Shards
from dsgt.factories import Factory, is_factory, lookup
from dsgt.text import nearest

PUBLISHED: dict[str, Callable[..., Any]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "mnist": mnist,
    "fashion-mnist": fashion_mnist,
    "femnist": femnist,
}
"""Their readers are told where the files are."""
DATA = ("digits", *PUBLISHED)
_N = TypeVar("_N", int, float)
PARTITIONS = "equal, dirichlet:ALPHA, labels:COUNT or groups"
KINDS = ("equal", "dirichlet", "labels", "groups")


@lru_cache(maxsize=2)  # the runs of a comparison share them
def named_data(
    name: str, *, images: bool, dtype: torch.dtype = torch.float32, root: Path | None = None
) -> tuple[Samples, Samples]:
    """Training and test samples, as images or as vectors. ``root`` is where the files are."""
    if name not in DATA:
        raise ValueError(nearest(name, DATA, "data set"))
    if name == "digits":
        return digits(images=images, dtype=dtype)
    found: tuple[Samples, Samples] = PUBLISHED[name](root, images=images, dtype=dtype)
    return found


def named_partition(given: str | Factory, data: Samples, nodes: int, *, seed: int) -> Shards:
    """``equal``, ``dirichlet:ALPHA``, ``labels:COUNT`` or ``groups``, drawn with this seed, or your own:
    ``module:name``, a function of targets, nodes and seed."""
    if (own := own_partition(given)) is not None:
        return own_shards(own, data, nodes, seed)
    text = str(given)
    kind, _, parameter = text.partition(":")
    if kind == "equal" and not parameter:
        return partition.equal(data, nodes, seed=seed)
    if kind == "groups" and not parameter:
        if data.groups is None:
            raise ValueError(
                "partition is 'groups', but these samples do not say who made them; FEMNIST's do, and those of a table "
                "where a column says it, FILE:target=COLUMN,groups=COLUMN"
            )
        return partition.by_group(data.groups, nodes, seed=seed)
    if kind in ("dirichlet", "labels") and not data.labelled:
        raise ValueError(
            f"partition is {text!r}, which spreads classes unevenly, but the targets are real numbers; give equal"
        )
    if kind in ("dirichlet", "labels") and data.targets.ndim != 1:
        raise ValueError(
            f"partition is {text!r}, which spreads classes unevenly, but the targets have the shape "
            f"{tuple(data.targets.shape)}; give one whole number a sample, as targets[:, 0] is, or equal"
        )
    if kind == "dirichlet":
        alpha = _number(float, parameter or "0.3", text)
        return partition.dirichlet(data.targets, nodes, alpha=alpha, seed=seed)
    if kind == "labels":
        count = _number(int, parameter or "2", text)
        return partition.by_label(data.targets, nodes, labels_per_node=count, seed=seed)
    raise ValueError(f"partition is {text!r}; expected {PARTITIONS}; or your own, module:name")


def own_partition(given: str | Factory) -> Factory | None:
    """A person's own; None where it is a built-in name, or nobody's."""
    if isinstance(given, Factory):
        return given
    built_in = given.partition(":")[0] in KINDS
    return lookup(given, "partition") if is_factory(given) and not built_in else None


def _number(kind: type[_N], parameter: str, text: str) -> _N:
    try:
        return kind(parameter)
    except ValueError:
        raise ValueError(f"partition is {text!r}, and {parameter!r} is no number; expected {PARTITIONS}") from None
