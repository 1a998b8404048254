"""A multilayer perceptron: linear layers with ReLU between them, on samples of any shape."""

from __future__ import annotations

from torch import nn

from dsgt.randomness import seeded


def mlp(
    *, features: int, classes: int = 10, hidden: int = 64, layers: int = 1, dropout: float = 0.0, seed: int = 0
) -> nn.Sequential:
    """``layers`` hidden layers of ``hidden`` units, each followed by dropout if there is any."""
    if min(features, classes, hidden) < 1 or layers < 0 or not 0 <= dropout < 1:
        raise ValueError(
            f"mlp(features={features}, classes={classes}, hidden={hidden}, layers={layers}, dropout={dropout}): sizes "
            "are at least 1 and dropout is a share, 0 <= dropout < 1"
        )
    with seeded(seed):  # initial weights, without touching the global stream
        made: list[nn.Module] = [nn.Flatten()]
        width = features
        for _ in range(layers):
            made += [nn.Linear(width, hidden), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
            width = hidden
        return nn.Sequential(*made, nn.Linear(width, classes))
