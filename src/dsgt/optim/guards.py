"""Signs that something else all-reduces the gradients before they reach the optimizer."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from dsgt.core import Network
from dsgt.networks.agreement import gather_numbers

LOOKS = 3
"""Rounds in which gradients are compared: nodes with different data do not have equal ones three times in a row."""
log = logging.getLogger("dsgt")


def refuse_ddp(parameters: Sequence[Tensor]) -> None:
    """A look at all wrappers that there are, since a parameter does not know who has wrapped it. They are found as what
    refers to its class: looking at every object's own takes eight times as long."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return  # there can be none
    ours, kinds = {id(p) for p in parameters}, [DistributedDataParallel]
    for kind in kinds:
        kinds += kind.__subclasses__()
    for thing in gc.get_referrers(*kinds):
        if issubclass(type(thing), DistributedDataParallel) and any(id(p) in ours for p in thing.parameters()):
            raise RuntimeError(
                "the model is wrapped in DistributedDataParallel, which averages the gradients of all processes before "
                "they are tracked: give dsgt the model itself, and build Accelerator, Trainer and their like within "
                "'with dsgt.alone():'"
            )


class EqualGradients:
    """Warns where all nodes have the same gradient, to the last bit, in each of the first rounds."""

    def __init__(self) -> None:
        self._equal = 0

    def look(self, network: Network, g: Tensor, k: int) -> None:
        if k >= LOOKS or network.nodes == 1:
            return
        prints = gather_numbers(network, [float(g.sum()), float(torch.linalg.vector_norm(g))])
        self._equal += bool((prints == prints[0]).all() and prints[:, 1].all())
        if self._equal == LOOKS and network.node == 0:
            log.warning(
                "all nodes had the same gradient in each of the first %d rounds: either they have equal data, or "
                "something averages the gradients before dsgt does (DistributedDataParallel, Accelerator, Trainer, "
                "Lightning's ddp); build those within 'with dsgt.alone():'",
                LOOKS,
            )
