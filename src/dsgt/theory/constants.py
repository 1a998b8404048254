"""What the theorems need to know about a problem and a network, and the one place where units are converted.

The theorems hold for every scaling of the losses. In the *package's units* node i feeds gradients of
F_i = (n N_i / N) (its mean loss), F = (1/n) sum F_i is the mean loss over all samples, and the step is lr. This is the
paper's algorithm with f_i = F_i, eta = 1 and gamma = lr, so ``Constants`` speaks the paper's symbols with f = n F.
In the *paper's units* losses and mini-batch gradients are summed: f_i = (N/n) F_i, eta = M/N and gamma = n lr / M.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Assumption 1 of the paper in numbers: f = sum f_i, E[s_i] = eta grad f_i(x_i), W doubly stochastic."""

    n: int
    """How many nodes."""
    L: float
    """The largest Lipschitz constant of a node's gradient, max L_i."""
    rho: float
    """||W - 11'/n||, below 1."""
    sigma2: float
    """sigma_s^2 := sum_i sigma_i^2, where Var[s_i] <= sigma_i^2 + lam^2 |eta grad f(x)|^2 (E17)."""
    gap: float
    """f(x̄_1) - f*, with f the *sum* of the f_i."""
    lam: float = 0.0
    """How fast the variance may grow with the gradient; 0 where it is bounded."""
    eta: float = 1.0
    """1 in the package's units, M/N in the paper's."""
    distance2: float | None = None
    """|x̄_1 - x*|^2, for Theorem 2."""
    mu: float = 0.0
    """Strong convexity, or the Polyak-Lojasiewicz constant, of f/n; 0 where it is not known."""
    X1: float = 0.0
    """||X_1 - 1 x̄_1'||_F^2, 0 where all nodes start equal."""
    Y1: float = 0.0
    """E ||Y_1 - 1 ȳ_1'||_F^2, the disagreement of the first stochastic gradients."""

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n is {self.n}, but a network has at least one node")
        if not 0 <= self.rho < 1:
            raise ValueError(
                f"rho is {self.rho:g}, but the theorems need 0 <= rho < 1: at 1 the nodes never agree; connect the "
                "graph and give every node a positive weight to itself, for example (I + W)/2"
            )
        if not self.lam >= 0:
            raise ValueError(f"lam is {self.lam:g}, but lambda^2 bounds a variance: give lam >= 0, 0 if it is bounded")
        if not 0 < self.eta <= 1:
            raise ValueError(f"eta is {self.eta:g}, but it is the share of samples drawn: 0 < eta <= 1")
        if not (self.L > 0 and math.isfinite(self.L)):
            raise ValueError(f"L is {self.L:g}, but a Lipschitz constant is a finite number above 0")
        for name in ("sigma2", "gap", "X1", "Y1", "distance2", "mu"):
            value = getattr(self, name)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise ValueError(
                    f"{name} is {value:g}, but it is a square, a gap or a curvature: a finite number of at least 0"
                )

    @property
    def L_tilde(self) -> float:
        """L sqrt(1 + 1.5 n^2 lam^2); the paper's 1 in place of 1.5 drops part of the variance (E18)."""
        return self.L * math.sqrt(1 + 1.5 * (self.n * self.lam) ** 2)

    @property
    def D(self) -> float:
        """sqrt(n L (f(x̄_1) - f*)); with x̄_1, not x_1 (E21)."""
        return math.sqrt(self.n * self.L * self.gap)

    @property
    def largest_step(self) -> float:
        """Theorem 1 holds up to here: (1 - rho)^2 / (eta L (1 + rho)^2 max{sqrt(1 + 1.5 n²lam²), 37 n²lam²}) (E18)."""
        n2lam2 = (self.n * self.lam) ** 2
        growth = max(math.sqrt(1 + 1.5 * n2lam2), 37 * n2lam2)
        return (1 - self.rho) ** 2 / (self.eta * self.L * (1 + self.rho) ** 2 * growth)

    def C(self, gamma1: float) -> float:
        """What unequal starts cost; 2 stands where the paper prints 2 sqrt(rho), which loses the first round (E19)."""
        root, rho = 1 - math.sqrt(self.rho), self.rho
        start = 2 * self.L_tilde / root * self.X1
        return start + 2 * self.L_tilde * rho**2 * (1 + rho) * gamma1**2 / root**3 * self.Y1

    def in_paper_units(self, *, samples: int, batch: int) -> Constants:
        """The same problem with summed losses: N samples, M of them drawn per round. A step lr becomes n lr / M.

        Bounds of Theorem 1 then grow by (N/n)^2, those of Theorem 2 by N/n.
        """
        if self.eta != 1:
            raise ValueError(f"eta is {self.eta:g}, so these constants are in the paper's units already")
        if not 1 <= batch <= samples:
            raise ValueError(f"batch is {batch} and samples {samples}, but a round draws between 1 and all samples")
        f, s = samples / self.n, batch / self.n
        return replace(
            self,
            L=f * self.L,
            mu=f * self.mu,
            gap=f * self.gap,
            sigma2=s**2 * self.sigma2,
            Y1=s**2 * self.Y1,
            eta=batch / samples,
        )


def paper_step(lr: float, *, nodes: int, batch: int) -> float:
    """gamma = n lr / M: the paper's step for the learning rate of centralized SGD with the global batch M."""
    return nodes * lr / batch
