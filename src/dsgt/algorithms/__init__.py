"""One file, one method, one paper. This table is what the command line, the docs and the tests read."""

from __future__ import annotations

from typing import Any

from dsgt.algorithms.ab import AB as AB
from dsgt.algorithms.acc_dngd import AccDNGD as AccDNGD
from dsgt.algorithms.adfs import ADFS as ADFS
from dsgt.algorithms.atc_dpsgd import AtcDPSGD as AtcDPSGD
from dsgt.algorithms.aug_dgm import AugDGM as AugDGM
from dsgt.algorithms.beer import BEER as BEER
from dsgt.algorithms.bianchi import Bianchi as Bianchi
from dsgt.algorithms.c_gt import CGT as CGT
from dsgt.algorithms.cedas import CEDAS as CEDAS
from dsgt.algorithms.choco import CHOCO as CHOCO
from dsgt.algorithms.clipped_gossip import ClippedGossip as ClippedGossip
from dsgt.algorithms.d2 import D2 as D2
from dsgt.algorithms.dcd_psgd import DCDPSGD as DCDPSGD
from dsgt.algorithms.dcs import DCS as DCS
from dsgt.algorithms.dda import DDA as DDA
from dsgt.algorithms.decentlam import DecentLaM as DecentLaM
from dsgt.algorithms.decentralized_amsgrad import DecentralizedAMSGrad as DecentralizedAMSGrad
from dsgt.algorithms.deepsqueeze import DeepSqueeze as DeepSqueeze
from dsgt.algorithms.detag import DeTAG as DeTAG
from dsgt.algorithms.diffusion_avrg import DiffusionAVRG as DiffusionAVRG
from dsgt.algorithms.docom import DoCoM as DoCoM
from dsgt.algorithms.dpsgd import DPSGD as DPSGD
from dsgt.algorithms.dsa import DSA as DSA
from dsgt.algorithms.dsba import DSBA as DSBA
from dsgt.algorithms.dsgt import DSGT as DSGT
from dsgt.algorithms.dsgt_hb import DSGTHB as DSGTHB
from dsgt.algorithms.dsgt_nesterov import DSGTNesterov as DSGTNesterov
from dsgt.algorithms.dsmt import DSMT as DSMT
from dsgt.algorithms.ecd_psgd import ECDPSGD as ECDPSGD
from dsgt.algorithms.edm import EDM as EDM
from dsgt.algorithms.epigraph_projection import EpigraphProjection as EpigraphProjection
from dsgt.algorithms.esdacd import ESDACD as ESDACD
from dsgt.algorithms.exact_diffusion import ExactDiffusion as ExactDiffusion
from dsgt.algorithms.extra import EXTRA as EXTRA
from dsgt.algorithms.fedavg import FedAvg as FedAvg
from dsgt.algorithms.frost import FROST as FROST
from dsgt.algorithms.gnsd import GNSD as GNSD
from dsgt.algorithms.gradient_push import GradientPush as GradientPush
from dsgt.algorithms.gt_hsgd import GTHSGD as GTHSGD
from dsgt.algorithms.gt_saga import GTSAGA as GTSAGA
from dsgt.algorithms.gt_sarah import GTSARAH as GTSARAH
from dsgt.algorithms.gt_svrg import GTSVRG as GTSVRG
from dsgt.algorithms.gtadam import GTAdam as GTAdam
from dsgt.algorithms.k_gt import KGT as KGT
from dsgt.algorithms.lead import LEAD as LEAD
from dsgt.algorithms.led import LED as LED
from dsgt.algorithms.lu_gt import LUGT as LUGT
from dsgt.algorithms.median import Median as Median
from dsgt.algorithms.mg_dsgd import MGDSGD as MGDSGD
from dsgt.algorithms.momentum_dsgd import MomentumDSGD as MomentumDSGD
from dsgt.algorithms.momentum_tracking import MomentumTracking as MomentumTracking
from dsgt.algorithms.moniqua import Moniqua as Moniqua
from dsgt.algorithms.motef import MoTEF as MoTEF
from dsgt.algorithms.msda import MSDA as MSDA
from dsgt.algorithms.mspd import MSPD as MSPD
from dsgt.algorithms.osgp import OSGP as OSGP
from dsgt.algorithms.proxskip import ProxSkip as ProxSkip
from dsgt.algorithms.push_diging import PushDIGing as PushDIGing
from dsgt.algorithms.push_pull import PushPull as PushPull
from dsgt.algorithms.qg_dsgdm import QGDSGDm as QGDSGDm
from dsgt.algorithms.relay_sgd import RelaySGD as RelaySGD
from dsgt.algorithms.rps import RPS as RPS
from dsgt.algorithms.sdcs import SDCS as SDCS
from dsgt.algorithms.sgd import SGD as SGD
from dsgt.algorithms.sgp import SGP as SGP
from dsgt.algorithms.sirb_ye import SirbYe as SirbYe
from dsgt.algorithms.ssda import SSDA as SSDA
from dsgt.algorithms.trimmed_mean import TrimmedMean as TrimmedMean
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
    "osgp": OSGP,
    "decentlam": DecentLaM,
    "momentum-dsgd": MomentumDSGD,
    "qg-dsgdm": QGDSGDm,
    "momentum-tracking": MomentumTracking,
    "dsgt-hb": DSGTHB,
    "dsgt-nesterov": DSGTNesterov,
    "dsmt": DSMT,
    "acc-dngd": AccDNGD,
    "gtadam": GTAdam,
    "decentralized-amsgrad": DecentralizedAMSGrad,
    "dda": DDA,
    "gradient-push": GradientPush,
    "push-diging": PushDIGing,
    "clipped-gossip": ClippedGossip,
    "trimmed-mean": TrimmedMean,
    "median": Median,
    "relay-sgd": RelaySGD,
    "rps": RPS,
    "push-pull": PushPull,
    "ab": AB,
    "frost": FROST,
    "k-gt": KGT,
    "lu-gt": LUGT,
    "led": LED,
    "proxskip": ProxSkip,
    "choco": CHOCO,
    "dcd-psgd": DCDPSGD,
    "ecd-psgd": ECDPSGD,
    "beer": BEER,
    "c-gt": CGT,
    "lead": LEAD,
    "cedas": CEDAS,
    "moniqua": Moniqua,
    "deepsqueeze": DeepSqueeze,
}

COMPOSITIONS: dict[str, type[Algorithm[Any]]] = {
    "bianchi": Bianchi,
    "fedavg": FedAvg,
    "mg-dsgd": MGDSGD,
    "detag": DeTAG,
    "dsa": DSA,
    "dsba": DSBA,
    "esdacd": ESDACD,
    "adfs": ADFS,
    "diffusion-avrg": DiffusionAVRG,
    "gt-saga": GTSAGA,
    "gt-svrg": GTSVRG,
    "gt-sarah": GTSARAH,
    "gt-hsgd": GTHSGD,
    "edm": EDM,
    "sirb-ye": SirbYe,
    "docom": DoCoM,
    "motef": MoTEF,
    "ssda": SSDA,
    "msda": MSDA,
    "mspd": MSPD,
    "dcs": DCS,
    "sdcs": SDCS,
}
"""Published methods that are one of the above on a network that they make of the one given, ``Algorithm.over``, or with
an oracle in the place of its gradients, ``Algorithm.asks``; and methods that ask for other things than gradients, or
take something of the network and the problem before they begin, ``Algorithm.fitted``."""

ALIASES = {"gt-dsgd": "aug-dgm", "s-addopt": "push-diging", "s-ab": "ab", "pull-diag-gt": "frost"}
"""Other names under which the same update was published."""

__all__ = ["ALGORITHMS", "COMPOSITIONS", *(kind.__name__ for kind in (ALGORITHMS | COMPOSITIONS).values())]
