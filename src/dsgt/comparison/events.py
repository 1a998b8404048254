"""The curves of a comparison as TensorBoard events, one run per method, learning rate and seed."""

from __future__ import annotations

import shutil
from pathlib import Path

from dsgt.comparison.measured import APART
from dsgt.comparison.result import Comparison

LABELS = {"method", "lr", "seed", "round", "diverged", "tuning"}


def write(found: Comparison, folder: Path) -> None:
    """Replace what the folder has: a run that is written twice would be drawn twice."""
    from torch.utils.tensorboard import SummaryWriter

    shutil.rmtree(folder, ignore_errors=True)
    for (method, lr), seeds in found.runs.items():
        for seed, rows in seeds.items():
            with SummaryWriter(folder / method / f"lr_{lr:g}" / f"seed_{seed}") as writer:
                for row in rows:
                    for key in (k for k in row.keys() - LABELS if not k.startswith(APART)):
                        writer.add_scalar(key, row[key], row["round"])
