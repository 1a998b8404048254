"""A plan for a run: what the network costs, which learning rate, when the network stops mattering, what to expect."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dsgt import topologies
from dsgt.algorithms import ALGORITHMS
from dsgt.core import Algorithm, Matrix, Network
from dsgt.problems.erm import EmpiricalRisk
from dsgt.run import NetworkLike, as_network
from dsgt.theory.advise import Advice, advise, effective_curvature, stable_window
from dsgt.theory.bounds import Bound, independence_rounds, theorem_1
from dsgt.theory.centralized import Comparison, given_shards
from dsgt.theory.estimate import Estimate, estimate
from dsgt.theory.independence import has_typical_ratio, typical_ratio, typical_rounds
from dsgt.theory.speedup import Link, Speedup, speedup
from dsgt.theory.stability import MARGIN
from dsgt.theory.usable import usable


@dataclass(frozen=True)
class Fit:
    """Whether a method suits a network and data."""

    method: str
    lr: float
    """Its practical limit here; 0 where it may not be used at all."""
    sends: int
    verdict: str
    """"good", "biased", "slow" or "no", and why."""
    how: str = ""
    """How the limit is known: exact, or measured where the method has no formula."""


@dataclass(frozen=True, eq=False)
class Plan:
    problem: EmpiricalRisk
    network: Network
    rounds: int
    estimate: Estimate
    advice: Advice

    @property
    def W(self) -> Matrix:
        return self.network.matrices[0]

    @cached_property
    def extra_noise(self) -> float | None:
        """Disagreement over noise at the advised learning rate, in the long run; None for a directed or huge one."""
        if not has_typical_ratio(self.W):
            return None
        return typical_ratio(self.W, self.advice.lr * self.estimate.L_F_met)

    @cached_property
    def independent_from(self) -> float | None:
        """The K from which the network typically costs less than the noise; None for a directed or huge one."""
        return typical_rounds(self.estimate.constants, self.W) if has_typical_ratio(self.W) else None

    @cached_property
    def independent_worst(self) -> float:
        """The same K by Corollary 2, for the worst smooth problem with these constants."""
        return independence_rounds(self.estimate.constants)

    def bound(self, rounds: int) -> Bound:
        """Theorem 1 for the mean loss F, with the better of its largest step and Corollary 2's."""
        c = self.estimate.constants
        step = c.largest_step
        if c.sigma2 > 0 and c.D > 0:
            step = min(step, c.D / (rounds**0.5 * c.L * c.sigma2**0.5))
        return theorem_1(c, step, rounds).divided(c.n**2)

    def speedup(self, *, latency: float, bandwidth: float, compute: float | None = None) -> Speedup:
        """Over one node, with messages of ``latency`` seconds plus bytes/``bandwidth``.

        ``compute`` is the seconds that a node needs for one sample's gradient; without it some are timed here.
        """
        p = self.problem
        per_sample = _seconds_per_sample(p) if compute is None else compute
        vector = p.dim * p.start(0).element_size() / bandwidth
        degree = topologies.describe(self.W).max_degree
        link = Link(latency / per_sample, vector / per_sample, degree, sends=2, hidden=1)
        return speedup(
            p.shards.sizes.tolist(),
            self.estimate.L_i.tolist(),
            self.estimate.L_F,
            link=link,
            eta=p.epochs_per_round,
        )

    @cached_property
    def centralized(self) -> Comparison | None:
        """The noise of DSGT beside that of centralized SGD with the same batch; None where it cannot be told."""
        e = self.estimate
        if e.sigma2_sample is None:
            return None
        return given_shards(
            n=e.n,
            L=e.L,
            L_c=e.L_F,
            sigma2=e.sigma2_end.value,
            sigma2_global=e.sigma2_sample,
            M=int(self.problem.batch.sum()),
        )

    def methods(self) -> list[Fit]:
        """Every method: may it use this network, up to which learning rate, and does uneven data bias it."""
        return [self._fit(name, complaint) for name, complaint in usable(self.W).items()]

    def _fit(self, name: str, complaint: str) -> Fit:
        method = ALGORITHMS[name]
        if complaint:
            return Fit(name, 0.0, method.sends, f"no: {complaint}")
        try:
            stable = stable_window(method, self.network)
        except Exception as error:  # a method of the user's may fail in any way, and must not cost the others' lines
            return Fit(name, 0.0, method.sends, f"no: it fails on quadratics: {error or type(error).__name__}")
        if stable.empty:
            return Fit(name, 0.0, method.sends, f"no: stable for no learning rate ({stable.how})")
        L, _ = effective_curvature(self.estimate, self.network, stable.high)
        lr = MARGIN * stable.high / L
        return Fit(name, lr, method.sends, self._verdict(method, lr), how=stable.how)

    def _verdict(self, method: type[Algorithm[Any]], lr: float) -> str:
        """What to think of a method that is stable up to lr."""
        if not method.exact and self.estimate.zeta2 > 0:
            # (I - W) X = -lr grad F_i leaves nodes about lr zeta / (1 - rho) apart
            off = self.advice.lr * self.estimate.zeta2**0.5 / (1 - self.estimate.rho)
            return f"biased: uneven data keep the nodes about {off:.2g} apart"
        if lr < 0.5 * self.advice.lr:
            return f"slow: stable only up to {lr / self.advice.lr:.0%} of the advised lr"
        return "good"


def plan(problem: EmpiricalRisk, network: NetworkLike, rounds: int, *, seed: int = 0) -> Plan:
    """Everything ``dsgt plan`` prints, for a network that does not change."""
    network = as_network(network)
    if network.weights.changes:
        raise ValueError(f"a plan is for one weight matrix, but {network.weights!r} changes; use advise() instead")
    found = estimate(problem, network, seed=seed)
    return Plan(problem, network, rounds, found, advise(problem, network, rounds, known=found, seed=seed))


def _seconds_per_sample(p: EmpiricalRisk) -> float:
    x, oracle = p.start(0).expand(p.nodes, -1).contiguous(), p.oracle(0)
    oracle(x, 0)
    clock = time.perf_counter()
    for k in range(3):
        oracle(x, k)
    return (time.perf_counter() - clock) / 3 / float(p.batch.sum())


def rivals(n: int) -> dict[str, Matrix]:
    """The usual graphs on n nodes with Metropolis weights: how much a better network would bring."""
    names = ("path", "ring", "star", "grid", "exponential", "complete")
    found = {}
    for name in names:
        try:
            W = topologies.metropolis(topologies.GRAPHS[name](n))
        except ValueError:
            continue  # a grid of a prime number of nodes
        if np.isfinite(topologies.rho(W)) and topologies.rho(W) < 1:
            found[name] = W
    return found
