"""The paper's experiments: one file per figure or claim, each a plan as data, a measurement and a figure."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsgt.reproduce.lab import AnyExperiment

NAMES = (
    "fig2", "fig3", "fig4", "sizes", "example1", "example2", "independence", "batch", "speedup", "lonely", "unbounded",
    "skew", "d2fdla", "resnet",
)  # fmt: skip
"""What ``dsgt reproduce`` offers: the files here that hold an EXPERIMENT."""


def experiment(name: str) -> AnyExperiment:
    """The experiment of this name; only now are its file and the libraries for tables and figures loaded."""
    found: AnyExperiment = import_module(f"dsgt.reproduce.{name}").EXPERIMENT
    return found


__all__ = ["NAMES", "experiment"]
