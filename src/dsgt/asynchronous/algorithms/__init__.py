"""One file, one asynchronous method, one paper."""

from __future__ import annotations

from typing import Any

from dsgt.asynchronous.algorithms.ad_psgd import ADPSGD as ADPSGD
from dsgt.asynchronous.algorithms.agp import AGP as AGP
from dsgt.asynchronous.algorithms.appg import APPG as APPG
from dsgt.asynchronous.algorithms.asy_sonata import AsySONATA as AsySONATA
from dsgt.asynchronous.algorithms.asyspa import AsySPA as AsySPA
from dsgt.asynchronous.algorithms.r_fast import RFAST as RFAST
from dsgt.asynchronous.core import AsyncAlgorithm

ASYNCHRONOUS: dict[str, type[AsyncAlgorithm[Any]]] = {
    "asy-sonata": AsySONATA,
    "r-fast": RFAST,
    "appg": APPG,
    "asyspa": AsySPA,
    "agp": AGP,
    "ad-psgd": ADPSGD,
}

__all__ = ["ASYNCHRONOUS", *(kind.__name__ for kind in ASYNCHRONOUS.values())]
