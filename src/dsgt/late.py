"""What is loaded when it is first used: the names of this package, and packages that most programs do without.

SciPy needs no such help: after ``import scipy`` its parts come by themselves.
"""

from __future__ import annotations

import gc
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["csgraph", "linalg", "load", "nx"]


def load(name: str) -> ModuleType:
    """Import a module of this package. The garbage collector, which would look through all of torch again and again for
    a tenth of the time, waits."""
    waits = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if waits:
            gc.enable()


class Late:
    """Stands for a module until it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)  # so that the next use costs nothing
        return found


if TYPE_CHECKING:
    import networkx as nx
    from scipy.sparse import csgraph, linalg
else:
    nx, csgraph, linalg = map(Late, ("networkx", "scipy.sparse.csgraph", "scipy.sparse.linalg"))
