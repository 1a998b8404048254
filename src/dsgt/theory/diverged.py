"""Why a run may have diverged: its learning rate beside what the method bears on this network and problem."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from dsgt.core import Algorithm, Network
from dsgt.divergence import Attempt, DivergedError
from dsgt.networks.dense import Dense
from dsgt.problems.base import GradientFunction
from dsgt.run import run as loop
from dsgt.theory.curvature import power_iteration
from dsgt.theory.stability import MARGIN, Window, has_polynomial, window_on

LOOKS, STEPS = 3, 8
"""Rounds looked at, and gradients drawn in each: the cost of a few rounds of the run that failed."""
EIGENVALUES_UP_TO = 1024
"""Up to this many nodes the eigenvalues of W are computed."""
MEASURED_UP_TO = 64
"""Up to this many nodes the limit of a method without a polynomial is measured, in about a second."""


P = ParamSpec("P")
R = TypeVar("R")


@torch.no_grad()
def explain(error: DivergedError) -> DivergedError:
    """The same error saying where the stability limit lies and which lr to try, as far as that is known."""
    return error if error.attempt is None else error.told(hint=suggestion(error.attempt, error.lr))


def explaining(run: Callable[P, R]) -> Callable[P, R]:
    """A ``run`` whose ``DivergedError`` is explained: the loop itself knows no theory."""

    @functools.wraps(run)
    def with_explanation(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return run(*args, **kwargs)
        except DivergedError as error:
            raise explain(error) from error.__cause__

    return with_explanation


run = explaining(loop)
"""What ``dsgt.run`` is."""


def suggestion(attempt: Attempt, lr: float) -> str:
    """Where the stability limit lies, if it is known, and which lr to try.

    The curvature is that of a few rounds' batches at ``x0``, where the run started. Nobody is asked: on a real node the
    others may be gone.
    """
    algorithm, problem, network = attempt.algorithm, attempt.problem, attempt.network
    if algorithm.diverges:
        return algorithm.diverges
    name, bears = type(algorithm).__name__, _window(algorithm, network)
    if bears is None:
        return ""
    L = _curvature(problem.oracle(attempt.seed), attempt.x0.expand(problem.nodes, -1).contiguous())
    if not (np.isfinite(L) and L > 0):
        return ""
    limit = bears.high / L
    about = f"stable for lr L < {bears.high:.3g}, and the most curved node has L = {L:.3g} at the start"
    if lr * L <= bears.low:
        return (
            f"on this network {name} is unstable where lr times the curvature is below {bears.low:.3g}: use "
            "topologies.lift(W, -1/3), or DSGT"
        )
    if lr > MARGIN * limit:
        return (
            f"lr = {lr:g} is beyond {limit:.2g}, about the limit of {name} on this network ({about}); try lr <= "
            f"{MARGIN * limit:.2g}"
        )
    return (
        f"lr = {lr:g} is within {limit:.2g}, about the limit of {name} on this network ({about}): the curvature has "
        "grown since, or the gradients are wrong; try a much smaller lr"
    )


def _window(algorithm: Algorithm[Any], network: Network) -> Window | None:
    """None where no limit is known, or only after long measuring: a changing network, one whose rows or columns do not
    sum to 1, a large one."""
    most = EIGENVALUES_UP_TO if has_polynomial(algorithm) else MEASURED_UP_TO
    if network.weights.changes or network.nodes > most:
        return None
    W = network.weights.at(0)
    if any(abs(np.asarray(W.sum(axis=axis)) - 1).max() > 1e-6 for axis in (0, 1)):
        return None
    return window_on(algorithm, Dense(network.weights))  # the nodes of the network may be gone


def _curvature(oracle: GradientFunction, x: Tensor) -> float:
    """The largest of a node's batches, root mean square over the rounds looked at."""

    def of_round(k: int) -> Tensor:
        return power_iteration(lambda z: oracle(z, k), x, steps=STEPS, seed=k)

    squares = torch.stack([of_round(k).square() for k in range(LOOKS)])
    return float(squares.mean(dim=0).max().sqrt())
