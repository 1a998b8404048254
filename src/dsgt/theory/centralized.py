"""DSGT beside centralized mini-batch SGD (section 5.2 of the paper), under A1 (the network does not matter).

Both rates have the form O((f(x_1) - f* + V sum gamma^2) / sum gamma) with gamma the centralized learning rate and

    V = L_c sigma^2 / M   centralized,      V = n L sigma_s^2 / M^2   DSGT      (paper's units),

so the two are compared by V alone. Here everything is in the package's units, where L and L_c belong to F_i and F
(mean losses): V = L_c sigma^2 / M and V = L sigma_s^2 / n^2, sigma_s^2 = sum of the variances of what the nodes feed.
"""

from __future__ import annotations

from dataclasses import dataclass

SMALLEST_BATCH = 18
"""Scenario (b) subtracts 9 * 2 / M of the left side from both sides: only M > 18 leaves something there (E30)."""


@dataclass(frozen=True)
class Comparison:
    """DSGT against centralized SGD with the same global batch and learning rate."""

    centralized: float
    """V of centralized SGD."""
    decentralized: float
    """V of DSGT."""
    ratio: float
    """Above 1 DSGT pays more for noise, below 1 less; 1 where neither has noise."""
    assumption: str


def given_shards(*, n: int, L: float, L_c: float, sigma2: float, sigma2_global: float, M: int) -> Comparison:
    """Scenario (a): the shards are given; what would SGD on their union cost?

    ``sigma2`` is the sum over the nodes of the variance of what they feed, ``sigma2_global`` the variance of one
    sample's gradient drawn from the union. Sampling each shard evenly removes the variance *between* the shards, so the
    ratio can be below 1 and is 0 where every shard holds copies of one sample (Example 2; not under Bernoulli sampling,
    whose variance is not centred: E6). sigma^2 >= sigma_s^2 / M is proven for agreeing nodes only (E29).
    """
    here, there = L * sigma2 / n**2, L_c * sigma2_global / M
    return Comparison(there, here, _ratio(here, there), "A1; the variances hold at one common model (E29)")


def given_union(*, M: int) -> float:
    """Scenario (b): a data set is cut into equal shards at random; how much worse is DSGT's bound than SGD's?

    sigma_s^2 <= 2 M sigma^2 + 2 eta L c_l ||X - 1x̄'||^2 (E28: without the printed /M) turns Theorem 1 into the
    centralized rate with V doubled and everything divided by 1 - 18/M. The factor returned is 1 / (1 - 18/M), under A1,
    A2 (equal shards, L_i = c_l N_i) and per-sample smoothness c_l (E31).
    """
    if M <= SMALLEST_BATCH:
        raise ValueError(
            f"M is {M}, but the comparison with centralized SGD needs a global batch M > {SMALLEST_BATCH}: the "
            "constant 9 of Theorem 1 times 2/M must stay below 1; draw more samples per round"
        )
    return 1 / (1 - SMALLEST_BATCH / M)


def _ratio(a: float, b: float) -> float:
    if b == 0:
        return 1.0 if a == 0 else float("inf")
    return a / b
