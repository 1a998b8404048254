"""Who holds what by a person's own function: shards, or the numbers of every node's samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dsgt.data.samples import Samples
from dsgt.data.shards import Shards
from dsgt.factories import Factory, a_thing
from dsgt.randomness import all_seeded


def own_shards(own: Factory, data: Samples, nodes: int, seed: int) -> Shards:
    """What it gives for these samples and nodes. It is told those of targets, nodes and seed that it takes."""

    def make() -> Shards:
        with all_seeded(seed):  # without touching the global streams
            kinds = (Shards, list, tuple, np.ndarray, Tensor)
            made = own.make(*kinds, targets=data.targets, nodes=nodes, seed=seed)
        try:
            return _shards(made, len(data), nodes)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the partition {own.text!r} cannot be used: {error}") from None

    shards, again = make(), make()
    if not (torch.equal(shards.order, again.order) and torch.equal(shards.sizes, again.sizes)):
        raise ValueError(
            f"the partition {own.text!r} gives other shards whenever it is called; draw them from its argument seed "
            "alone"
        )
    return shards


def _shards(made: Any, samples: int, nodes: int) -> Shards:
    parts = [_numbers(part, node) for node, part in enumerate(made)]
    if len(parts) != nodes:
        raise ValueError(f"it gives the samples of {len(parts)} nodes, but there are {nodes}; give one list for each")
    shards = Shards.of(parts)
    if shards.samples != samples:
        raise ValueError(
            f"it shares out {shards.samples} samples, but there are {samples}; leave samples out, or copy them, in the "
            "data"
        )
    return shards


def _numbers(part: Any, node: int) -> Tensor:
    """The samples of one node. An empty list is one of real numbers to NumPy."""
    try:
        found = torch.as_tensor(part if isinstance(part, Tensor) else np.array(part)).reshape(-1)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"node {node} holds {a_thing(part)}; give a list of the numbers of its samples") from None
    if len(found) and (found.is_floating_point() or found.is_complex() or found.dtype == torch.bool):
        raise ValueError(f"the samples of node {node} are {found.dtype}; give their numbers, as in mask.nonzero()")
    return found.long().cpu()
