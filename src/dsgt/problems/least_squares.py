"""Least squares: F(x) = (1/N) sum (a'x - t)^2 / 2 + (l2/2) |x|^2, with its exact optimum and constants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dsgt.data.parts import Parts
from dsgt.data.samples import DataLike
from dsgt.data.sampling import Sampling
from dsgt.data.shards import Shards
from dsgt.problems.erm import check_numbers
from dsgt.problems.factored import Factored, factored
from dsgt.problems.inverse import Inverse, Solutions
from dsgt.problems.linear import LinearModel


@dataclass(frozen=True, eq=False)
class Constants:
    """How curved a problem is. In the paper's units, where losses are summed: L_i N/n, L N and mu N."""

    L_i: Tensor
    """Smoothness of each node's F_i = (n N_i / N) (its mean loss) + (l2/2) |x|^2, (n,): F is the mean of the F_i."""
    L: float
    """Smoothness of F."""
    mu: float
    """Strong convexity of F."""


class LeastSquares(LinearModel):
    """Targets are real numbers; one score per sample."""

    convex = True

    def __init__(
        self,
        data: DataLike,
        shards: Shards,
        sampling: Sampling,
        *,
        test: DataLike | None = None,
        intercept: bool = False,
        l2: float = 0.0,
    ) -> None:
        super().__init__(data, shards, sampling, scores=1, test=test, intercept=intercept, l2=l2)
        check_numbers(self.data, "least squares")
        self._factors: dict[tuple[int | None, int], Factored] = {}

    def _slope_(self, z: Tensor, rows: Tensor) -> Tensor:
        return z.sub_(self.targets.index_select(0, rows.reshape(-1)).view(z.shape))

    def _loss_of_scores(self, z: Tensor, targets: Tensor) -> Tensor:
        return (z[..., 0, :] - targets).square() / 2

    def _normal(self, rows: Tensor) -> Tensor:
        A = self.rows[rows].double()
        return A.mT @ A

    def inverses(self, q: int) -> Inverse:
        parts = self._factored(q)
        return lambda r, j, own, weight, near: Solutions(parts.solved(r, j, own, weight), 1)

    def convexity(self) -> Tensor:
        """Exactly."""
        return self._factored(1).lowest() + self.l2

    def smoothness_of(self, q: int) -> Tensor:
        """Exactly."""
        return self._factored(q).highest()

    def _factored(self, q: int) -> Factored:
        key = self.node, q
        if key not in self._factors:
            parts, w = Parts(self.places, q, self.node), self.nodes * q / self.samples
            self._factors[key] = factored(self.rows, self.targets, parts, q, w, self._lead)
        return self._factors[key]

    @cached_property
    def optimum(self) -> Tensor:
        """Solved in float64; the smallest solution where there are many."""
        A, t = self.rows.double(), self.targets.double()
        if self.l2:
            H = A.mT @ A / self.samples + self.l2 * torch.eye(self.dim, dtype=A.dtype, device=A.device)
            x: Tensor = torch.linalg.solve(H, A.mT @ t / self.samples)
        else:
            x = torch.linalg.pinv(A) @ t
        return x.to(self.rows.dtype)

    @cached_property
    def constants(self) -> Constants:
        scale = self.nodes / self.samples
        tops = [torch.linalg.eigvalsh(self._normal(shard))[-1] for shard in self.places]
        all_ = torch.linalg.eigvalsh(self._normal(self.places.order)) / self.samples + self.l2
        return Constants(scale * torch.stack(tops) + self.l2, float(all_[-1]), max(0.0, float(all_[0])))
