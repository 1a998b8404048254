"""A person's own data: what a factory gives, as samples, and who holds what where each node brings its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from dsgt.data.samples import Samples, as_samples
from dsgt.data.shards import Shards
from dsgt.factories import Factory
from dsgt.randomness import all_seeded

T = TypeVar("T")
EXPECTED = "(train, test), each a pair of tensors (features, targets) or a Dataset; test may be None"


class Own(NamedTuple):
    train: Samples
    test: Samples | None
    shards: Shards | None
    """Who holds what, if the factory was asked node by node."""


@lru_cache(maxsize=1)  # the runs of a comparison share it
def own_data(factory: Factory, nodes: int, dtype: torch.dtype) -> Own:
    """All of it, for the simulator. A factory that takes ``node`` is called for every node, and gives its part."""
    if not factory.takes("node"):
        return Own(*_samples(factory, dtype, nodes=nodes), None)
    parts = [_named(i, partial(own_part, factory, i, nodes, dtype)) for i in range(nodes)]
    check_tests([0 if test is None else len(test) for _, test in parts])
    tests = [test for _, test in parts if test is not None]
    sizes = torch.tensor([len(train) for train, _ in parts])
    train = _joined([train for train, _ in parts], factory)
    same = all(torch.equal(t.features, tests[0].features) and torch.equal(t.targets, tests[0].targets) for t in tests)
    test = None if not tests else tests[0] if same else _joined(tests, factory)  # one test set for all counts once
    return Own(train, test, Shards(torch.arange(len(train)), sizes))


def own_part(factory: Factory, node: int, nodes: int, dtype: torch.dtype) -> tuple[Samples, Samples | None]:
    """What one node holds, and its test samples."""
    return _samples(factory, dtype, node=node, nodes=nodes)


def check_tests(counts: Sequence[float]) -> None:
    """Of the nodes' test samples; a ValueError where some nodes have none."""
    if any(counts) and not all(counts):
        lacking = next(i for i, count in enumerate(counts) if not count)
        raise ValueError(f"node {lacking} has no test samples, but others have; give all some, or none")


def check_kinds(labelled: Sequence[float]) -> None:
    """Of the nodes' training samples."""
    if any(labelled) and not all(labelled):
        real, whole = (next(i for i, kind in enumerate(labelled) if bool(kind) is which) for which in (False, True))
        raise ValueError(
            f"node {real} has real targets, but node {whole} has classes (whole numbers); give the same kind at all"
        )


def said_shapes(samples: Samples) -> str:
    features, targets = (tuple(t.shape[1:]) for t in (samples.features, samples.targets))
    return f"features {features} and targets {targets}"


def check_shapes(factory: Factory, said: Sequence[str]) -> None:
    """Of the samples at each node."""
    other = next((i for i, shapes in enumerate(said) if shapes != said[0]), None)
    if other is not None:
        raise ValueError(
            f"the {factory.what} {factory.text!r} gives node 0 samples of {said[0]}, but node {other} of "
            f"{said[other]}; give all the same"
        )


def _named(node: int, load: Callable[[], T]) -> T:
    """What goes wrong says at which node, as it does between real ones."""
    try:
        return load()
    except ValueError as error:
        raise ValueError(f"node {node}: {error}") from error


def _samples(factory: Factory, dtype: torch.dtype, **offered: int) -> tuple[Samples, Samples | None]:
    """A function that draws, as ``random_split`` does, must give every process the same, or the same to one node."""
    with all_seeded(offered.get("node", 0)):
        return _read(factory, dtype, factory.make(tuple, list, **offered))


def _read(factory: Factory, dtype: torch.dtype, pair: Any) -> tuple[Samples, Samples | None]:
    if len(pair) != 2:
        raise ValueError(f"the {factory.what} {factory.text!r} gives {len(pair)} things; expected {EXPECTED}")
    train, test = pair
    if all(isinstance(part, Tensor | np.ndarray) for part in pair):
        raise ValueError(
            f"the {factory.what} {factory.text!r} gives one pair of tensors; expected {EXPECTED}: give ((features, "
            "targets), None) where there are no test samples"
        )

    def read(data: Any, which: str) -> Samples:
        try:
            return as_samples(data).to(dtype=dtype)
        except (Exception, SystemExit) as error:  # whatever a person's own Dataset does
            kind = "" if isinstance(error, TypeError | ValueError | AttributeError) else f"{type(error).__name__}: "
            raise ValueError(
                f"the {which} data of {factory.text!r} cannot be used: {kind}{error}; expected {EXPECTED}"
            ) from error

    return read(train, "training"), None if test is None else read(test, "test")


def _joined(parts: list[Samples], factory: Factory) -> Samples:
    check_kinds([p.labelled for p in parts])
    check_shapes(factory, [said_shapes(p) for p in parts])
    return Samples(torch.cat([p.features for p in parts]), torch.cat([p.targets for p in parts]))
