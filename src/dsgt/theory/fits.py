"""Which methods suit a network and data, and up to which learning rate. What is wrong with one costs the others
nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dsgt.algorithms import ALGORITHMS, COMPOSITIONS
from dsgt.core import Algorithm, Network
from dsgt.theory.advise import effective_curvature
from dsgt.theory.estimate import Estimate
from dsgt.theory.measured import measured_limit, placed
from dsgt.theory.stability import MARGIN, PUBLISHED, has_polynomial, window

HIGHEST = 100.0
"""Of lr L: what does not grow there does not grow anywhere."""
NetworkOf: TypeAlias = Callable[[str, Algorithm[Any]], Network]
"""The network that the method of this name gets; a ValueError says why it may not use it."""


@dataclass(frozen=True)
class Fit:
    """Whether a method suits a network and data."""

    method: str
    lr: float
    """Its practical limit here; 0 where it may not be used at all, infinite where no learning rate makes it grow."""
    sends: float
    verdict: str
    """"good", "biased", "slow" or "no", and why."""
    how: str = ""
    """How the limit is known: exact, or measured where the method has no formula."""


def fits(e: Estimate, network_of: NetworkOf, advised: float | None) -> list[Fit]:
    """Every method. ``advised`` is the learning rate that others are held against, where there is one."""
    return [_fit(name, e, network_of, advised) for name in ALGORITHMS | COMPOSITIONS]


def _fit(name: str, e: Estimate, network_of: NetworkOf, advised: float | None) -> Fit:
    sends = 0.0
    try:
        algorithm = (ALGORITHMS | COMPOSITIONS)[name]()
        sends = algorithm.sends
        network = network_of(name, algorithm)
    except Exception as error:  # a method of the user's may fail in any way, and must not cost the others' lines
        return Fit(name, 0.0, sends, f"no: {error or type(error).__name__}")
    try:
        lr, how = _limit(algorithm, e, network)
    except Exception as error:
        return Fit(name, 0.0, sends, f"no: it fails on quadratics: {error or type(error).__name__}")
    if lr == 0:
        return Fit(name, 0.0, sends, f"no: stable for no learning rate ({how})")
    return Fit(name, lr, sends, _verdict(algorithm, network, e, lr, advised), how)


def _limit(algorithm: Algorithm[Any], e: Estimate, network: Network) -> tuple[float, str]:
    """The largest learning rate with a margin, and how it is known; 0 where there is none."""
    if algorithm.published_lr is not None:
        return algorithm.published_lr, PUBLISHED
    if has_polynomial(algorithm):
        stable = window(algorithm, network)
        L, _ = effective_curvature(e, network, stable.high)
        return (0.0 if stable.empty else MARGIN * stable.high / L), stable.how
    # at the curvature itself: the limit of a method that rescales its gradients does not fall like 1/L
    L, _ = effective_curvature(e, network, 2.0)
    limit = measured_limit(*placed(algorithm, network, L), curvature=L, highest=HIGHEST)
    return (math.inf if limit >= HIGHEST / L else MARGIN * limit), f"measured on {network.nodes} equal quadratics"


def _verdict(algorithm: Algorithm[Any], network: Network, e: Estimate, lr: float, advised: float | None) -> str:
    """What to think of a method that is stable up to lr."""
    if not algorithm.exact and e.zeta2 > 0:
        # (I - W) X = -lr grad F_i leaves nodes about lr zeta / (1 - rho) apart, if it is this W that the method uses
        off = (lr if advised is None else advised) * e.zeta2**0.5 / (1 - e.rho)
        known = lr < math.inf and algorithm.over(network) is network
        return "biased: uneven data keep the nodes " + (f"about {off:.2g} apart" if known else "apart")
    if advised is not None and lr < 0.5 * advised:
        return f"slow: stable only up to {lr / advised:.0%} of the advised lr"
    if lr == math.inf and "resolvent" in algorithm.asks.wants:
        return "good: its steps are implicit, and no lr makes it grow; find one with dsgt compare"
    if lr == math.inf:
        return "good: it rescales its steps, so lr is how far it goes in a round; find one with dsgt compare"
    return "good"
