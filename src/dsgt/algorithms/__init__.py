"""One file, one method, one paper. This table is what the command line, the docs and the tests read."""

from __future__ import annotations

from typing import Any

from dsgt.algorithms.atc_dpsgd import AtcDPSGD
from dsgt.algorithms.aug_dgm import AugDGM
from dsgt.algorithms.d2 import D2
from dsgt.algorithms.dpsgd import DPSGD
from dsgt.algorithms.dsgt import DSGT
from dsgt.algorithms.exact_diffusion import ExactDiffusion
from dsgt.algorithms.extra import EXTRA
from dsgt.algorithms.gnsd import GNSD
from dsgt.algorithms.sgd import SGD
from dsgt.algorithms.sgp import SGP
from dsgt.core import Algorithm

ALGORITHMS: dict[str, type[Algorithm[Any]]] = {
    "sgd": SGD,
    "dpsgd": DPSGD,
    "atc-dpsgd": AtcDPSGD,
    "dsgt": DSGT,
    "gnsd": GNSD,
    "aug-dgm": AugDGM,
    "extra": EXTRA,
    "exact-diffusion": ExactDiffusion,
    "d2": D2,
    "sgp": SGP,
}

__all__ = [
    "ALGORITHMS",
    "D2",
    "DPSGD",
    "DSGT",
    "EXTRA",
    "GNSD",
    "SGD",
    "SGP",
    "AtcDPSGD",
    "AugDGM",
    "ExactDiffusion",
]
