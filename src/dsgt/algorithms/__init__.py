"""One file, one method, one paper. This table is what the command line, the docs and the tests read."""

from __future__ import annotations

from typing import Any

from dsgt.algorithms.atc_dpsgd import AtcDPSGD as AtcDPSGD
from dsgt.algorithms.aug_dgm import AugDGM as AugDGM
from dsgt.algorithms.d2 import D2 as D2
from dsgt.algorithms.decentlam import DecentLaM as DecentLaM
from dsgt.algorithms.dpsgd import DPSGD as DPSGD
from dsgt.algorithms.dsgt import DSGT as DSGT
from dsgt.algorithms.exact_diffusion import ExactDiffusion as ExactDiffusion
from dsgt.algorithms.extra import EXTRA as EXTRA
from dsgt.algorithms.gnsd import GNSD as GNSD
from dsgt.algorithms.momentum_dsgd import MomentumDSGD as MomentumDSGD
from dsgt.algorithms.qg_dsgdm import QGDSGDm as QGDSGDm
from dsgt.algorithms.sgd import SGD as SGD
from dsgt.algorithms.sgp import SGP as SGP
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
    "decentlam": DecentLaM,
    "momentum-dsgd": MomentumDSGD,
    "qg-dsgdm": QGDSGDm,
}

__all__ = ["ALGORITHMS", *(kind.__name__ for kind in ALGORITHMS.values())]
