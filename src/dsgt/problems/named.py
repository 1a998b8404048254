"""A problem as a person names it, on a command line or in a file of settings: data set, model, and who holds what."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from dsgt.core import Network
from dsgt.data.augment import named_augmentation
from dsgt.data.files import READERS, data_file
from dsgt.data.names import DATA, named_data, named_partition
from dsgt.data.own import Own, check_kinds, check_shapes, own_data, own_part, said_shapes
from dsgt.data.samples import Samples
from dsgt.data.sampling import WithReplacement
from dsgt.data.shards import OwnShard, Shards
from dsgt.data.validation import hold_out
from dsgt.factories import Factory, is_factory, lookup, pairs
from dsgt.networks.agreement import gather_numbers, gather_text, together
from dsgt.problems.lenet import lenet
from dsgt.problems.logistic import Logistic
from dsgt.problems.mlp import mlp
from dsgt.problems.model import Model, ModuleError
from dsgt.problems.resnet import resnet20
from dsgt.problems.spread import Spread
from dsgt.problems.training import Augment
from dsgt.problems.transformer import transformer
from dsgt.randomness import all_seeded
from dsgt.text import nearest

BUILT_IN: dict[str, Callable[..., nn.Module]] = {
    "lenet": lenet,
    "mlp": mlp,
    "resnet20": resnet20,
    "transformer": transformer,
}
MODELS = ("logistic", *BUILT_IN)
OF_THE_DATA = {"features", "classes", "channels", "size", "seed"}
"""Arguments that nobody writes: the samples and the run's seed say them."""


@lru_cache(maxsize=1)  # runs that follow each other on one problem share it; one of CIFAR-10 is large
def named_problem(
    data: str | Factory,
    model: str | Factory,
    *,
    nodes: int,
    partition: str | Factory,
    batch: int,
    seed: int,
    root: Path | None = None,
    l2: float = 0.0,
    augment: str | Factory | None = None,
    statistics: str = "own",
    dtype: torch.dtype = torch.float32,
    validation: float = 0.0,
) -> Logistic | Model:
    """Logistic regression, a network or your own model on this data, the shards drawn with this seed.

    Models start from the seed too. ``module:name`` is your own data, or your own model. ``validation``: the share of
    every node's samples that it does not learn from, and whose loss is measured in the place of the others'.
    """
    kind, how = named_model(model), _how(augment, statistics)
    images = kind != "logistic" if isinstance(kind, str) else data != "digits" or _takes_images_only(kind, seed)
    train, test, shards = _loaded(data, nodes, images, dtype, root)
    if train.labelled and train.targets.ndim == 1:
        check_several(int(train.targets.min()), int(train.targets.max()))
    if shards is None:
        shards = named_partition(partition, train, nodes, seed=seed)
    classes = _classes(kind, train, test)
    if not validation:
        return _problem(kind, train, test, shards, classes, batch=batch, seed=seed, l2=l2, **how)
    train, shards, rest = hold_out(train, shards, validation, seed)
    learning = _problem(kind, train, test, shards, classes, batch=batch, seed=seed, l2=l2, **how)
    return learning.measured_by(_vectors(rest) if kind == "logistic" else rest)


def _how(augment: str | Factory | None, statistics: str) -> dict[str, Any]:
    return {"augment": named_augmentation(augment), "statistics": statistics}


def _classes(kind: str | Factory, train: Samples, test: Samples | None) -> int:
    """How many the built-in models must tell apart."""
    if not isinstance(kind, str):
        return 0
    if not train.labelled or train.targets.ndim != 1:
        raise ValueError(
            f"{kind} tells classes apart, but the targets are {train.targets.dtype} of shape "
            f"{tuple(train.targets.shape)}; give one whole number a sample, or a model of your own"
        )
    return max(train.classes, test.classes if test is not None and test.labelled else 0)


def check_several(lowest: int, highest: int) -> None:
    """Of the labels of all training samples."""
    if lowest == highest:
        raise ValueError(
            f"all training samples have the label {lowest}, and nothing can be learned from one class; give samples of "
            "two at least"
        )


def _problem(
    kind: str | Factory,
    train: Samples,
    test: Samples | None,
    shards: Shards,
    classes: int,
    *,
    batch: int,
    seed: int,
    l2: float,
    augment: Augment | None,
    statistics: str,
) -> Logistic | Model:
    sampling = WithReplacement(batch=batch)
    if kind == "logistic":
        if augment is not None:
            raise ValueError("logistic regression takes samples as they are; give --augment with a network, --model")
        rest = None if test is None else _vectors(test)
        return Logistic(_vectors(train), shards, sampling, test=rest, l2=l2, classes=classes)
    shape = tuple(train.features.shape[1:])
    module = _made(kind, seed) if isinstance(kind, Factory) else built_in(kind, shape, classes, seed)
    # the fastest on CPUs, and named: a strategy found by measuring may differ in the last bits tomorrow
    loss = cross_entropy if train.labelled else squared_error
    how: Any = {"augment": augment, "statistics": statistics}
    try:
        return Model(module, train, shards, sampling, loss=loss, test=test, l2=l2, strategy="loop", **how)
    except ModuleError as error:
        if isinstance(kind, str):
            raise
        raise ValueError(f"the model {kind.text!r} cannot be trained on these samples: {error}") from error


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Of real targets, the mean over a batch; an output (b, 1) is one number a sample."""
    if outputs.numel() != targets.numel():
        raise ValueError(
            f"the outputs are {tuple(outputs.shape)} and the targets {targets.dtype} {tuple(targets.shape)}, but the "
            "squared error of real targets needs as many outputs; for classes give whole numbers: targets.long()"
        )
    return mse_loss(outputs.reshape(targets.shape), targets)


def loads_parts(data: str | Factory) -> bool:
    """Whether it is loaded node by node, so that a real node need not load all of it."""
    found = data_source(data)
    return isinstance(found, Factory) and found.takes("node")


def spread_problem(
    data: str | Factory,
    model: str | Factory,
    network: Network,
    *,
    batch: int,
    seed: int,
    l2: float = 0.0,
    augment: str | Factory | None = None,
    statistics: str = "own",
    dtype: torch.dtype = torch.float32,
) -> Spread:
    """The same problem as ``named_problem`` gives, on a real node that loads its own part only. All call it at once."""
    kind, found, node, how = named_model(model), data_source(data), network.node, _how(augment, statistics)
    assert isinstance(found, Factory)
    assert node is not None

    def load() -> tuple[Samples, Samples | None]:
        return own_part(found, node, network.nodes, dtype)

    train, test = together(network, load)
    single = train.labelled and train.targets.ndim == 1
    low, high = (int(train.targets.min()), int(train.targets.max())) if single else (-1, 0)
    check_kinds(gather_numbers(network, [train.labelled])[:, 0].tolist())
    check_shapes(found, gather_text(network, said_shapes(train)))
    told = gather_numbers(network, [len(train), together(network, lambda: _classes(kind, train, test)), low, high])
    check_several(int(told[:, 2].min()), int(told[:, 3].max()))
    shards = OwnShard(torch.arange(len(train)), told[:, 0].long(), node)
    most = int(told[:, 1].max())
    own = together(network, lambda: _problem(kind, train, test, shards, most, batch=batch, seed=seed, l2=l2, **how))
    return Spread(own, network)


def named_model(model: str | Factory) -> str | Factory:
    """One of ``MODELS``, perhaps with arguments, or your own; a ValueError says why there is none of this name."""
    if isinstance(model, Factory) or model in MODELS:
        return model
    name, colon, given = model.partition(":")
    if name in BUILT_IN and colon:
        known = inspect.signature(BUILT_IN[name]).parameters.keys() - OF_THE_DATA
        for key in pairs(model, given):
            if key not in known:
                raise ValueError(nearest(key, sorted(known), f"argument of {name}"))
        return model
    if name in MODELS or not is_factory(model):
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


def built_in(model: str, shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    """A network by name for samples of this shape."""
    name, _, given = model.partition(":")
    offered: dict[str, Any] = {"features": prod(shape), "classes": classes, "seed": seed}
    if name != "mlp":
        if len(shape) != 3 or shape[1] != shape[2]:
            raise ValueError(f"{name} needs square images (channels, size, size), but a sample has the shape {shape}")
        offered |= {"channels": shape[0], "size": shape[1]}
    factory = Factory(model, "model", BUILT_IN[name], pairs(model, given) if given else {})
    module: nn.Module = factory.make(nn.Module, **offered)
    return module


@torch.no_grad()
def _takes_images_only(factory: Factory, seed: int) -> bool:
    """The digits are a table to most people, and pictures to a convolution."""
    module = copy.deepcopy(_made(factory, seed)).eval()  # it may be somebody's own, which stays as it is

    def takes(*shape: int) -> bool:
        try:
            module(torch.zeros(2, *shape))
        except Exception:  # whatever a person's own module does with what it does not expect
            return False
        return True

    with all_seeded(seed):
        return not takes(64) and takes(1, 8, 8)


def _made(factory: Factory, seed: int) -> nn.Module:
    with all_seeded(seed):  # initial weights, without touching the global streams
        module: nn.Module = factory.make(nn.Module, seed=seed)
        return module
