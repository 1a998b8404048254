"""BatchNorm's running statistics for the mean model, on the data of all nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import update_bn

from dsgt.core import Network


@torch.no_grad()
def recalibrate_batch_norm(model: nn.Module, batches: Iterable[Any], network: Network, weight: float) -> None:
    """Every node measures its own data, layer by layer in one pass, and the moments are averaged with the nodes'
    weights: the variance is the mean of the squares less the square of the mean, so how far the nodes' means lie apart
    is part of it."""
    update_bn(batches, model)
    for layer in model.modules():
        if isinstance(layer, _BatchNorm) and layer.running_mean is not None and layer.running_var is not None:
            mean, variance = layer.running_mean.double(), layer.running_var.double()
            first, second = network.mean(weight * torch.stack([mean, variance + mean**2]))
            layer.running_mean.copy_(first)
            layer.running_var.copy_(second - first**2)
