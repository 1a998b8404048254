"""A reader's own folder: the files that the commands of docs/comparing.md name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

METHODS = """
from dataclasses import dataclass

import dsgt
from dsgt.core import parameter


@dataclass(frozen=True)
class Mine(dsgt.DSGT):
    beta: float = parameter(0.9, "what one likes")
"""
MODELS = """
from torch import nn


def resnet20(width=8):
    return nn.Sequential(nn.Conv2d(1, width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36 * width, 10))


def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(32 * 32, 2))
"""
DATA = """
import torch


def load():
    x = torch.randn(300, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    y = torch.arange(300) % 10
    return (x[:240], y[:240]), (x[240:], y[240:])
"""


def made(folder: Path) -> Path:
    for name, text in {"mymethods": METHODS, "mymodels": MODELS, "mydata": DATA}.items():
        (folder / f"{name}.py").write_text(text)
    draw = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{k % 2}" for k, (a, b) in enumerate(draw.normal(size=(300, 2)))]
    (folder / "patients.csv").write_text("\n".join(["age,weight,outcome", *rows]))
    pictures, labels = draw.integers(0, 256, (240, 28, 28), dtype=np.uint8), np.arange(240) % 10
    mnist = {"x_train": pictures[:200], "y_train": labels[:200], "x_test": pictures[200:], "y_test": labels[200:]}
    np.savez(folder / "mnist.npz", **mnist)
    for label in ("cats", "dogs"):
        (folder / "photos" / label).mkdir(parents=True)
        for k in range(100):
            Image.fromarray(pictures[k]).save(folder / "photos" / label / f"{k}.png")
    return folder
