"""A plan for a run: what the network costs, which learning rate, when the network stops mattering, what to expect."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dsgt import topologies
from dsgt.core import Algorithm, Matrix, Network
from dsgt.problems.erm import EmpiricalRisk
from dsgt.run import NetworkLike, as_network
from dsgt.theory.advise import Advice, advise
from dsgt.theory.bounds import Bound, independence_rounds, theorem_1
from dsgt.theory.centralized import Comparison, given_shards
from dsgt.theory.estimate import Estimate, estimate
from dsgt.theory.fits import Fit, fits
from dsgt.theory.independence import has_typical_ratio, typical_ratio, typical_rounds
from dsgt.theory.speedup import Link, Speedup, speedup
from dsgt.theory.usable import usable


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
        complaints = usable(self.W)

        def network_of(name: str, algorithm: Algorithm[Any]) -> Network:
            if complaints[name]:
                raise ValueError(complaints[name])
            return self.network

        return fits(self.estimate, network_of, self.advice.lr)


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
