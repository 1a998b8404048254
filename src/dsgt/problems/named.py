"""A problem as a person names it, on a command line or in a file of settings: data set, model, and who holds what."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch
from torch import nn

from dsgt.data.files import READERS, data_file
from dsgt.data.names import DATA, named_data, named_partition
from dsgt.data.own import Own, own_data
from dsgt.data.samples import Samples
from dsgt.data.sampling import WithReplacement
from dsgt.factories import Factory, is_factory, lookup
from dsgt.problems.lenet import lenet
from dsgt.problems.logistic import Logistic
from dsgt.problems.model import Model
from dsgt.text import nearest

MODELS = ("logistic", "lenet")


@lru_cache(maxsize=1)  # runs that follow each other on one problem share it; one of CIFAR-10 is large
def named_problem(
    data: str | Factory,
    model: str | Factory,
    *,
    nodes: int,
    partition: str,
    batch: int,
    seed: int,
    root: Path | None = None,
    l2: float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> Logistic | Model:
    """Logistic regression, LeNet or your own model on this data, the shards drawn with this seed.

    Models start from the seed too. ``module:name`` is your own data, or your own model.
    """
    kind = named_model(model)
    train, test, shards = _loaded(data, nodes, kind == "lenet", dtype, root)
    if kind == "logistic":
        train, test = _vectors(train), None if test is None else _vectors(test)
    if shards is None:
        shards = named_partition(partition, train, nodes, seed=seed)
    sampling = WithReplacement(batch=batch)
    if kind == "logistic":
        return Logistic(train, shards, sampling, test=test, l2=l2)
    module = _lenet(train, seed) if not isinstance(kind, Factory) else _made(kind, seed)
    # the fastest on CPUs, and named: a strategy found by measuring may differ in the last bits tomorrow
    return Model(module, train, shards, sampling, test=test, l2=l2, strategy="loop")


def named_model(model: str | Factory) -> str | Factory:
    """One of ``MODELS``, or your own; a ValueError says why there is none of this name."""
    if isinstance(model, Factory) or model in MODELS:
        return model
    if not is_factory(model):
        raise ValueError(nearest(model, MODELS, "model") + "; or your own, module:name")
    return lookup(model, "model")


def data_source(data: str | Factory) -> str | Factory:
    """One of ``DATA``, or your own; a ValueError says why there is none of this name."""
    if isinstance(data, Factory) or data in DATA:
        return data
    if is_factory(data):
        return lookup(data, "data")
    if (file := data_file(data)) is not None:
        return file
    raise ValueError(
        nearest(data, DATA, "data set") + f"; or a folder, a file {' '.join(READERS)}, or your own, module:name"
    )


def _loaded(data: str | Factory, nodes: int, images: bool, dtype: torch.dtype, root: Path | None) -> Own:
    found = data_source(data)
    if isinstance(found, Factory):
        return own_data(found, nodes, dtype)
    return Own(*named_data(found, images=images, dtype=dtype, root=root), None)


def _vectors(data: Samples) -> Samples:
    return data if data.features.ndim == 2 else Samples(data.features.flatten(1), data.targets)


def _lenet(train: Samples, seed: int) -> nn.Module:
    shape = tuple(train.features.shape[1:])
    if len(shape) != 3 or shape[1] != shape[2]:
        raise ValueError(f"lenet needs square images (channels, size, size), but a sample has the shape {shape}")
    return lenet(channels=shape[0], size=shape[1], classes=train.classes, seed=seed)


def _made(factory: Factory, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):  # initial weights by seed, without touching the global stream
        torch.manual_seed(seed)
        module: nn.Module = factory.make(nn.Module, seed=seed)
        return module
