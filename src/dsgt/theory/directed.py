"""A plan where links have a direction: which methods may be used, on which weights, and up to which learning rate.

DSGT's theorems need a doubly stochastic W, which most directed graphs do not have; what is left to tell are limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dsgt.core import Algorithm, Network
from dsgt.late import nx
from dsgt.networks.dense import Dense
from dsgt.problems.erm import EmpiricalRisk
from dsgt.theory.estimate import Estimate, estimate
from dsgt.theory.fits import Fit, fits
from dsgt.topologies.spectrum import second_modulus
from dsgt.topologies.suited import suited
from dsgt.topologies.weights import averaging, pull_weights


@dataclass(frozen=True, eq=False)
class DirectedPlan:
    problem: EmpiricalRisk
    graph: nx.Graph[int]
    estimate: Estimate
    """Its rho is the modulus of the second eigenvalue of the pull weights."""

    def methods(self) -> list[Fit]:
        """Every method on weights that it may use: pull, push, or one matrix of each."""

        def network_of(name: str, algorithm: Algorithm[Any]) -> Network:
            needs = algorithm.needs
            try:
                if not needs.average:
                    return Dense(suited(needs, self.graph, "metropolis")[0])
            except ValueError:
                pass  # what to do about it is the same for all, and said once
            raise ValueError(f"needs {needs}")

        return fits(self.estimate, network_of, None)


def directed_plan(problem: EmpiricalRisk, graph: nx.Graph[int], *, seed: int = 0) -> DirectedPlan:
    """What ``dsgt plan`` prints for a graph whose links have a direction."""
    found = estimate(problem, averaging(problem.nodes), seed=seed)  # nothing but rho depends on the network
    return DirectedPlan(problem, graph, replace(found, rho=second_modulus([pull_weights(graph)])))
