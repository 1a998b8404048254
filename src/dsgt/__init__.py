"""Peer-to-peer training in PyTorch, without a server, exact on uneven data.

Every public name is listed here and imported when it is first used, so that ``dsgt --help`` does without torch, and a
training script without what draws and reports.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dsgt._version import __version__ as __version__
from dsgt.extras import explained
from dsgt.late import load

if TYPE_CHECKING:  # the same list for editors and type checkers; a test compares the two
    from dsgt import algorithms as algorithms
    from dsgt import checkpoint as checkpoint
    from dsgt import compression as compression
    from dsgt import data as data
    from dsgt import metrics as metrics
    from dsgt import networks as networks
    from dsgt import oracles as oracles
    from dsgt import problems as problems
    from dsgt import randomness as randomness
    from dsgt import report as report
    from dsgt import schedules as schedules
    from dsgt import theory as theory
    from dsgt import topologies as topologies
    from dsgt.algorithms import *  # noqa: F403
    from dsgt.asynchronous.algorithms import ADPSGD as ADPSGD
    from dsgt.asynchronous.algorithms import AGP as AGP
    from dsgt.asynchronous.algorithms import APPG as APPG
    from dsgt.asynchronous.algorithms import RFAST as RFAST
    from dsgt.asynchronous.algorithms import AsySONATA as AsySONATA
    from dsgt.asynchronous.algorithms import AsySPA as AsySPA
    from dsgt.asynchronous.core import AsyncAlgorithm as AsyncAlgorithm
    from dsgt.asynchronous.events import Absence as Absence
    from dsgt.asynchronous.peers import AsyncPeers as AsyncPeers
    from dsgt.asynchronous.run import run_async as run_async
    from dsgt.comparison import Comparison as Comparison
    from dsgt.comparison import Settings as Settings
    from dsgt.comparison import compare as compare
    from dsgt.comparison import sweep as sweep
    from dsgt.core import Algorithm as Algorithm
    from dsgt.core import Inner as Inner
    from dsgt.core import Local as Local
    from dsgt.core import Mix as Mix
    from dsgt.core import Needs as Needs
    from dsgt.core import Network as Network
    from dsgt.core import Oracle as Oracle
    from dsgt.core import Pending as Pending
    from dsgt.core import restart_tracking as restart_tracking
    from dsgt.core import settle as settle
    from dsgt.divergence import DivergedError as DivergedError
    from dsgt.fit import Fitted as Fitted
    from dsgt.fit import fit as fit
    from dsgt.networks import NeighbourError as NeighbourError
    from dsgt.networks import alone as alone
    from dsgt.optim import Optimizer as Optimizer
    from dsgt.optim.asynchronous import AsyncOptimizer as AsyncOptimizer
    from dsgt.oracles import AVRG as AVRG
    from dsgt.oracles import SAG as SAG
    from dsgt.oracles import SAGA as SAGA
    from dsgt.oracles import SARAH as SARAH
    from dsgt.oracles import STORM as STORM
    from dsgt.oracles import SVRG as SVRG
    from dsgt.oracles import Momentum as Momentum
    from dsgt.oracles import Stale as Stale
    from dsgt.run import Result as Result
    from dsgt.run import iterate as iterate
    from dsgt.run import run as run

_ROOMS = (
    *("algorithms", "checkpoint", "compression", "data", "metrics", "networks", "oracles", "problems", "randomness"),
    *("report", "schedules", "theory", "topologies"),
)
_NAMES = {
    "dsgt.asynchronous.algorithms": ("ADPSGD", "AGP", "APPG", "AsySONATA", "AsySPA", "RFAST"),
    "dsgt.asynchronous.core": ("AsyncAlgorithm",),
    "dsgt.asynchronous.events": ("Absence",),
    "dsgt.asynchronous.peers": ("AsyncPeers",),
    "dsgt.asynchronous.run": ("run_async",),
    "dsgt.comparison": ("Comparison", "Settings", "compare", "sweep"),
    "dsgt.core": (
        *("Algorithm", "Inner", "Local", "Mix", "Needs", "Network", "Oracle", "Pending"),
        *("restart_tracking", "settle"),
    ),
    "dsgt.divergence": ("DivergedError",),
    "dsgt.fit": ("Fitted", "fit"),
    "dsgt.networks": ("NeighbourError", "alone"),
    "dsgt.optim": ("Optimizer",),
    "dsgt.optim.asynchronous": ("AsyncOptimizer",),
    "dsgt.oracles": ("AVRG", "SAG", "SAGA", "SARAH", "STORM", "SVRG", "Momentum", "Stale"),
    "dsgt.run": ("Result", "iterate"),
    "dsgt.theory.diverged": ("run",),  # the loop's, and it explains why a run has diverged
}
"""Which module a name comes from. The methods, ``dsgt.DSGT`` and all others, are those that ``algorithms`` lists."""
_HOME = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    found: Any
    if name in _ROOMS or name in _HOME:
        with explained():
            module = load(_HOME.get(name, f"dsgt.{name}"))
        found = module if name in _ROOMS else getattr(module, name)
    elif name == "__all__":
        found = sorted({"__version__", *_ROOMS, *_HOME, *_methods()})
    elif not name.startswith("_") and name in _methods():
        found = getattr(load("dsgt.algorithms"), name)
    else:
        raise AttributeError(f"module 'dsgt' has no attribute {name!r}")
    globals()[name] = found  # so that the next use costs nothing
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})


def _methods() -> list[str]:
    names: list[str] = load("dsgt.algorithms").__all__
    return names


class _Package(ModuleType):
    """``dsgt.run`` and ``dsgt.fit`` are the functions, also after Python has loaded the files of these names."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("run", "fit") or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __reduce__(self) -> Any:
        """A function of a script that says ``dsgt.`` takes this module with it to other processes, by name."""
        return load, (self.__name__,)


sys.modules[__name__].__class__ = _Package
