"""Peer-to-peer training in PyTorch, without a server, exact on uneven data.

Every public name is listed here and imported when it is first used, so that ``dsgt --help`` does without torch, and a
training script without what draws and reports.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dsgt._version import __version__ as __version__
from dsgt.extras import explained

if TYPE_CHECKING:  # the same list for editors and type checkers; a test compares the two
    from dsgt import algorithms as algorithms
    from dsgt import checkpoint as checkpoint
    from dsgt import data as data
    from dsgt import metrics as metrics
    from dsgt import networks as networks
    from dsgt import problems as problems
    from dsgt import randomness as randomness
    from dsgt import report as report
    from dsgt import theory as theory
    from dsgt import topologies as topologies
    from dsgt.algorithms import *  # noqa: F403
    from dsgt.comparison import Comparison as Comparison
    from dsgt.comparison import Settings as Settings
    from dsgt.comparison import compare as compare
    from dsgt.core import Algorithm as Algorithm
    from dsgt.core import Inner as Inner
    from dsgt.core import Mix as Mix
    from dsgt.core import Needs as Needs
    from dsgt.core import Network as Network
    from dsgt.core import Pending as Pending
    from dsgt.core import restart_tracking as restart_tracking
    from dsgt.core import settle as settle
    from dsgt.divergence import DivergedError as DivergedError
    from dsgt.fit import Fitted as Fitted
    from dsgt.fit import fit as fit
    from dsgt.networks import NeighbourError as NeighbourError
    from dsgt.networks import alone as alone
    from dsgt.optim import Optimizer as Optimizer
    from dsgt.run import Result as Result
    from dsgt.run import iterate as iterate
    from dsgt.run import run as run

_ROOMS = (
    *("algorithms", "checkpoint", "data", "metrics", "networks", "problems", "randomness", "report", "theory"),
    "topologies",
)
_NAMES = {
    "dsgt.comparison": ("Comparison", "Settings", "compare"),
    "dsgt.core": ("Algorithm", "Inner", "Mix", "Needs", "Network", "Pending", "restart_tracking", "settle"),
    "dsgt.divergence": ("DivergedError",),
    "dsgt.fit": ("Fitted", "fit"),
    "dsgt.networks": ("NeighbourError", "alone"),
    "dsgt.optim": ("Optimizer",),
    "dsgt.run": ("Result", "iterate"),
    "dsgt.theory.diverged": ("run",),  # the loop's, and it explains why a run has diverged
}
"""Which module a name comes from. The methods, ``dsgt.DSGT`` and all others, are those that ``algorithms`` lists."""
_HOME = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    found: Any
    if name in _ROOMS or name in _HOME:
        with explained():
            module = import_module(_HOME.get(name, f"dsgt.{name}"))
        found = module if name in _ROOMS else getattr(module, name)
    elif name == "__all__":
        found = sorted({"__version__", *_ROOMS, *_HOME, *_methods()})
    elif not name.startswith("_") and name in _methods():
        found = getattr(import_module("dsgt.algorithms"), name)
    else:
        raise AttributeError(f"module 'dsgt' has no attribute {name!r}")
    globals()[name] = found  # so that the next use costs nothing
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})


def _methods() -> list[str]:
    names: list[str] = import_module("dsgt.algorithms").__all__
    return names


class _Package(ModuleType):
    """``dsgt.run`` and ``dsgt.fit`` are the functions, also after Python has loaded the files of these names."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("run", "fit") or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
