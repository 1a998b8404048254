"""Where a method's gradients come from. One file, one oracle; a method with one is a word, ``extra+saga:q=20``."""

from __future__ import annotations

from typing import Any

from dsgt.core import Oracle
from dsgt.oracles.avrg import AVRG as AVRG
from dsgt.oracles.conjugate import Conjugate as Conjugate
from dsgt.oracles.exact import Exact as Exact
from dsgt.oracles.momentum import Momentum as Momentum
from dsgt.oracles.sag import SAG as SAG
from dsgt.oracles.saga import SAGA as SAGA
from dsgt.oracles.sarah import SARAH as SARAH
from dsgt.oracles.stale import Stale as Stale
from dsgt.oracles.storm import STORM as STORM
from dsgt.oracles.svrg import SVRG as SVRG

ORACLES: dict[str, type[Oracle[Any]]] = {
    "svrg": SVRG,
    "sag": SAG,
    "saga": SAGA,
    "avrg": AVRG,
    "sarah": SARAH,
    "storm": STORM,
    "momentum": Momentum,
    "stale": Stale,
    "exact": Exact,
}

__all__ = ["ORACLES", "Conjugate", *(kind.__name__ for kind in ORACLES.values())]
