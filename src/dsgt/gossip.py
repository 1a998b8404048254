"""Several rounds of gossip as one mixing, which any method can use: plain, accelerated or Chebyshev.

    e_r = c_r a (W - I) z_{r-1} + (c_r - 1) e_{r-1}
    z_r = z_{r-1} + e_r,     z_0 = v,  e_0 = 0

What is added up are flows, so nothing drifts however often the nodes have agreed. c = a = 1 gives W^R v.
Accelerated: Liu and Morse, Accelerated linear iterations for distributed averaging, 2011. Chebyshev: Scaman, Bach,
Bubeck, Lee and Massoulie, Optimal algorithms for smooth and strongly convex distributed optimization, 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from torch import Tensor

from dsgt.core import Around, Matrix, Mix, Network, Packed, Pending, Sendable, Weights
from dsgt.topologies.spectrum import is_symmetric, laplacian_extremes, rho


class Repeated(Around):
    """``rounds`` rounds of gossip in the place of one. The last one travels while the node computes."""

    def __init__(
        self,
        network: Network,
        rounds: int | None = None,
        *,
        coefficients: Sequence[float] = (),
        relaxation: float = 1.0,
    ) -> None:
        """rounds: W^rounds; or the ``coefficients`` c_1, c_2 ... of another polynomial, and its ``relaxation`` a."""
        super().__init__(network)
        if network.weights.random:
            raise ValueError(
                f"Repeated mixes several times with the matrix of a round, but {network.weights!r} draws one a round; "
                "give weights that are not random"
            )
        if rounds is not None and rounds < 1:
            raise ValueError(f"Repeated was given {rounds} rounds; expected at least 1")
        self.coefficients = tuple(coefficients) or (1.0,) * (rounds or 1)
        self.relaxation = relaxation
        self.weights = _Polynomial(network.weights, self)
        self.leaves: float | None = None
        """Which part of a disagreement at most, where that is known."""

    def round(self, k: int, weights: Weights) -> Mix:
        if isinstance(weights, _Polynomial):
            weights = weights.of
        return _RepeatedMix(self, self.inner.round(k, weights))


def accelerated(network: Network, rounds: int) -> Repeated:
    """z_{r+1} = (1 + eta) W z_r - eta z_{r-1}: the disagreement shrinks like (1 - sqrt(2 (1 - rho)))^r, not rho^r."""
    W = _one_symmetric(network, "accelerated gossip")
    if rounds < 1:
        raise ValueError(f"accelerated gossip was given {rounds} rounds; expected at least 1")
    root = math.sqrt(max(0.0, 1 - min(1.0, rho(W)) ** 2))
    return Repeated(network, coefficients=[1 + (1 - root) / (1 + root)] * rounds)


def chebyshev(network: Network, rounds: int | None = None) -> Repeated:
    """The polynomial of this degree that shrinks disagreement most; by default of degree 1/sqrt(the ratio of the
    smallest to the largest nonzero eigenvalue of I - W), after which disagreement is a
    fraction that does not depend on the network."""
    W = _one_symmetric(network, "Chebyshev gossip")
    if W.shape[0] == 1:
        return Repeated(network, rounds or 1)
    low, high = laplacian_extremes(W)
    ratio = min(1.0, low / high)
    rounds = max(1, math.floor(1 / math.sqrt(ratio))) if rounds is None else rounds
    if rounds < 1:
        raise ValueError(f"Chebyshev gossip was given {rounds} rounds; expected at least 1")
    made = Repeated(network, coefficients=_chebyshev_coefficients(ratio, rounds), relaxation=2 / (low + high))
    c = ((1 - math.sqrt(ratio)) / (1 + math.sqrt(ratio))) ** rounds
    made.leaves = 2 * c / (1 + c * c)
    return made


def eigenvalue_range(network: Network) -> tuple[float, float]:
    """Where the eigenvalues of I - W lie, but for the one that is 0; of Chebyshev gossip, where they do at worst."""
    if network.nodes == 1:
        return 1.0, 1.0
    if isinstance(network, Repeated) and network.leaves is not None:
        return 1 - network.leaves, 1 + network.leaves
    return laplacian_extremes(_one_symmetric(network, "this method"))


def _chebyshev_coefficients(ratio: float, rounds: int) -> list[float]:
    """1 + a_{r-1}/a_{r+1}, where a_0 = 1, a_1 = c, a_{r+1} = 2 c a_r - a_{r-1}; by quotients, which stay bounded."""
    inverse = (1 - ratio) / (1 + ratio)  # 1/c, and a_0/a_1; 0 for a complete graph, where one round does everything
    found, quotient = [1.0], inverse
    for _ in range(rounds - 1):
        following = inverse / (2 - inverse * quotient)  # a_r/a_{r+1}
        found.append(1 + quotient * following)
        quotient = following
    return found


def _one_symmetric(network: Network, who: str) -> Matrix:
    if network.weights.changes:
        raise ValueError(f"{who} needs weights that do not change, but {network.weights!r} does; use Repeated")
    W = network.weights.at(0)
    if not is_symmetric(W):
        raise ValueError(f"{who} needs a symmetric W, for example topologies.metropolis(graph); else use Repeated")
    return W


@dataclass(frozen=True)
class _RepeatedMix(Mix):
    network: Repeated
    mix: Mix

    @property
    def k(self) -> int:
        return self.mix.k

    @property
    def nodes(self) -> int:
        return self.mix.nodes

    @property
    def rows(self) -> Tensor:
        return self.mix.rows

    @property
    def push(self) -> Mix:
        return self if self.mix.push is self.mix else _RepeatedMix(self.network, self.mix.push)

    def start(self, v: Sendable) -> Pending:
        plain = _plain(v)
        return self._begun(plain, plain)

    def start_flow(self, v: Sendable) -> Pending:
        return self._begun(_plain(v), None)

    def _begun(self, v: Tensor, added: Tensor | None) -> Pending:
        """All rounds but the last, and that one on its way."""
        a, (*before, last) = self.network.relaxation, self.network.coefficients
        change, moved = None, None
        for c in before:
            flow = self.mix.flow(v if moved is None else v + moved)
            change = c * a * flow if change is None else c * a * flow + (c - 1) * change
            moved = change if moved is None else moved + change
        flight = self.mix.start_flow(v if moved is None else v + moved)
        known = None if change is None or moved is None else moved + (last - 1) * change
        if added is not None:
            known = added if known is None else added + known
        return _LastRound(flight, last * a, known)


def _plain(v: Sendable) -> Tensor:
    """From the second round of gossip on it would travel unpacked."""
    if isinstance(v, Packed):
        raise TypeError("several rounds of gossip as one mixing send plain vectors; use a network of single rounds")
    return v


@dataclass(frozen=True)
class _LastRound(Pending):
    flight: Pending
    factor: float
    known: Tensor | None

    def wait(self) -> Tensor:
        return self._after(self.flight.wait())

    def peek(self) -> Tensor:
        return self._after(self.flight.peek())

    def _after(self, flow: Tensor) -> Tensor:
        return self.factor * flow if self.known is None else self.known + self.factor * flow


class _Polynomial(Weights):
    """What really mixes."""

    def __init__(self, of: Weights, repeated: Repeated) -> None:
        self.of, self._repeated = of, repeated

    @cached_property
    def _matrices(self) -> list[Matrix]:
        return [self._polynomial(W) for W in self.of.matrices]

    @property
    def matrices(self) -> Sequence[Matrix]:
        return self._matrices

    def at(self, k: int) -> Matrix:
        return self._polynomial(self.of.at(k))

    @property
    def push(self) -> Weights:
        return self if self.of.push is self.of else _Polynomial(self.of.push, self._repeated)

    def _polynomial(self, W: Matrix) -> Matrix:
        n, a = W.shape[0], self._repeated.relaxation
        one = np.eye(n) if isinstance(W, np.ndarray) else scipy.sparse.eye_array(n, format="csr")
        z, e = one, 0 * one
        for c in self._repeated.coefficients:
            e = c * a * ((W - one) @ z) + (c - 1) * e
            z = z + e
        return z

    def __repr__(self) -> str:
        return f"Repeated({self.of!r}, rounds={len(self._repeated.coefficients)})"
