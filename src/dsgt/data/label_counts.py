"""How many samples of each label every node holds: counted, and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dsgt.data.shards import Shards
from dsgt.extras import explained

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def counts(shards: Shards, labels: Tensor) -> Tensor:
    """How many samples of each label every node holds, (n, classes)."""
    if labels.is_floating_point() or len(labels) != shards.samples:
        raise ValueError(
            f"there are {len(labels)} labels of dtype {labels.dtype} for {shards.samples} samples; give one whole "
            "number per sample"
        )
    classes = int(labels.max()) + 1
    node = torch.repeat_interleave(torch.arange(len(shards)), shards.sizes.cpu())
    held = labels.cpu()[shards.order.cpu()]
    return torch.bincount(node * classes + held, minlength=len(shards) * classes).view(len(shards), classes)


def picture(shards: Shards, labels: Tensor) -> Figure:
    """Left, how many samples of each label every node holds; right, how many in all."""
    with explained():
        from matplotlib.figure import Figure
    table = counts(shards, labels)
    nodes, classes = table.shape
    figure = Figure(figsize=(4 + 0.4 * classes, 1.2 + 0.25 * min(nodes, 40)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[classes, 4])
    image = left.imshow(table.numpy(), aspect="auto", cmap="Blues", interpolation="nearest")
    left.set(xlabel="label", ylabel="node", title="samples per node and label", xticks=range(classes))
    figure.colorbar(image, ax=left)
    right.barh(range(nodes), table.sum(dim=1).numpy())
    right.set(xlabel="samples")
    if nodes <= 40:
        left.set_yticks(range(nodes))
        for i, j in table.nonzero().tolist():
            shade = "white" if table[i, j] > table.max() / 2 else "black"
            left.text(j, i, int(table[i, j]), ha="center", va="center", color=shade, fontsize=7)
    return figure
