"""A problem as a person names it, on a command line or in a file of settings: data set, model, and who holds what."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch

from dsgt.data.names import named_data, named_partition
from dsgt.data.sampling import WithReplacement
from dsgt.problems.lenet import lenet
from dsgt.problems.logistic import Logistic
from dsgt.problems.model import Model
from dsgt.text import nearest

MODELS = ("logistic", "lenet")


@lru_cache(maxsize=1)  # runs that follow each other on one problem share it; one of CIFAR-10 is large
def named_problem(
    data: str,
    model: str,
    *,
    nodes: int,
    partition: str,
    batch: int,
    seed: int,
    root: Path | None = None,
    l2: float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> Logistic | Model:
    """Logistic regression or LeNet on this data, the shards drawn with this seed; LeNet starts from it too."""
    if model not in MODELS:
        raise ValueError(nearest(model, MODELS, "model"))
    train, test = named_data(data, images=model == "lenet", dtype=dtype, root=root)
    shards = named_partition(partition, train, nodes, seed=seed)
    sampling = WithReplacement(batch=batch)
    if model == "logistic":
        return Logistic(train, shards, sampling, test=test, l2=l2)
    channels, size = train.features.shape[1:3]
    module = lenet(channels=channels, size=size, seed=seed)
    # the fastest on CPUs, and named: a strategy found by measuring may differ in the last bits tomorrow
    return Model(module, train, shards, sampling, test=test, l2=l2, strategy="loop")
