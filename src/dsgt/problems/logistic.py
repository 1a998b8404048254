"""Logistic regression, for two classes or many: F(x) = (1/N) sum -log p(label) + (l2/2) |x|^2."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from dsgt.buffers import room_for
from dsgt.data.parts import Parts
from dsgt.data.samples import DataLike
from dsgt.data.sampling import Sampling
from dsgt.data.shards import Shards
from dsgt.problems import newton
from dsgt.problems.erm import check_labels
from dsgt.problems.inverse import Inverse, Number, Solutions, accepted, column, goal
from dsgt.problems.linear import LinearModel, at_targets, padded


class Logistic(LinearModel):
    """Two classes: one score per sample, p(1) = sigmoid(z), m = d + 1. C classes: p = softmax(z), m = C (d + 1)."""

    convex = True

    def __init__(
        self,
        data: DataLike,
        shards: Shards,
        sampling: Sampling,
        *,
        classes: int | None = None,
        test: DataLike | None = None,
        intercept: bool = True,
        l2: float = 0.0,
    ) -> None:
        super().__init__(data, shards, sampling, scores=1, test=test, intercept=intercept, l2=l2)
        self.classes = max(2, self.data.classes if classes is None else classes)
        check_labels(self.data, self.classes, "training")
        if self.test is not None:
            check_labels(self.test, self.classes, "test")
        self.scores = 1 if self.classes == 2 else self.classes
        self.dim = self.scores * self.rows.shape[1]
        if self.scores == 1:
            # With the sign of the wrong answer in the row, a loss is softplus(z) and its slope sigmoid(z): no labels.
            wrong = 1 - 2 * self.targets[:, None].to(self.rows.dtype)
            self.rows = torch.mul(self.rows, wrong, out=room_for(self.rows))

    def _slope_(self, z: Tensor, rows: Tensor) -> Tensor:
        if self.scores == 1:
            return z.sigmoid_()
        labels = self.targets.index_select(0, rows.reshape(-1)).view(*z.shape[:-2], 1, -1)
        p = z.movedim(-2, 0).softmax(dim=0).movedim(0, -2)  # over whole vectors of samples, three times as fast
        return p.scatter_(-2, labels, -1.0, reduce="add")

    def _loss_of_scores(self, z: Tensor, targets: Tensor) -> Tensor:
        if self.scores == 1:
            sign = 1 - 2 * targets.to(z.dtype)
            return torch.nn.functional.softplus(sign * z[..., 0, :])
        return z.logsumexp(dim=-2) - at_targets(z, targets)

    def _curved(self, z: Tensor) -> Callable[[Tensor], Tensor]:
        """dz -> the change of the slopes at the scores z (..., C, b): (diag(p) - p p') dz."""
        if self.scores == 1:
            p = z.sigmoid()
            return lambda dz: p * (1 - p) * dz
        p = z.softmax(dim=-2)
        return lambda dz: p * (dz - (p * dz).sum(dim=-2, keepdim=True))

    def inverses(self, q: int) -> Inverse:
        parts = Parts(self.places, q, self.node)
        per_sample = self._per_sample(parts)

        def inverse(r: Tensor, j: Tensor, own: Number, weight: Number, near: Tensor) -> Solutions:
            rows, weights = padded(*parts.ragged(j), per_sample)
            R = r.view(-1, self.dim)
            a, b = (column(number, R).expand(len(R), 1) for number in (own, weight))
            asked = b[:, 0] != 0  # of the others own x = r
            some = slice(None) if bool(asked.all()) else asked.nonzero()[:, 0]
            equation = Equation(self, rows[some], (b[..., None] * weights)[some], a[some], R[some])
            found = newton.solve(near.view(R.shape)[some], equation.residual, equation.derivative, goal=goal(R[some]))
            x = R / a
            x[some] = accepted(found, equation.residual(found), R[some])
            return Solutions(x.view(r.shape), equation.gradients)

        return inverse

    def convexity(self) -> Tensor:
        return self.rows.new_full((*self._lead, 1), self.l2)

    def smoothness_of(self, q: int) -> Tensor:
        """The bound of ``smoothness``, of every part."""
        parts = Parts(self.places, q, self.node)
        top = []
        for j in range(q):
            which, counts = parts.ragged(torch.full((*self._lead, 1), j, device=self.rows.device))
            top += [torch.linalg.matrix_norm(self.rows[some], 2).square() for some in which.split(counts.tolist())]
        found = torch.stack(top).view(q, -1).mT * (self._bend * self.nodes * q / self.samples)
        return found.reshape(*self._lead, q)

    @cached_property
    def optimum(self) -> Tensor | None:
        """Found by Newton's method at first use, to rounding; None without l2, where separable data have no optimum."""
        if not self.l2 or self.node is not None:
            return None
        everybody, zero = torch.arange(self.samples, device=self.rows.device)[None], self.start(0)[None]
        equal = self.rows.new_full((1, 1, 1), 1 / self.samples)
        equation = Equation(self, everybody, equal, column(self.l2, zero), zero)
        return newton.solve(zero, equation.residual, equation.derivative)[0]

    @property
    def _bend(self) -> float:
        """An upper bound on the curvature of a sample's loss in its scores (Böhning, for more than two classes)."""
        return 0.25 if self.scores == 1 else 0.5

    @cached_property
    def smoothness(self) -> float:
        """An upper bound on L: c lambda_max(A'A) / N + l2, with c = 1/4 for two classes and 1/2 for more (Böhning)."""
        top = torch.linalg.matrix_norm(self.rows.double(), 2).square()
        return float(top) / self.samples * self._bend + self.l2


class Equation:
    """own x + A' (weights slope(A x)) = r, one in each row: own (n, 1), weights (n, 1, b), r (n, m)."""

    def __init__(self, problem: Logistic, rows: Tensor, weights: Tensor, own: Tensor, r: Tensor) -> None:
        self._problem, self._rows, self._weights, self._own, self._r = problem, rows, weights, own, r
        self._A = problem.rows.index_select(0, rows.flatten()).view(*rows.shape, -1)
        self.gradients = 0
        """What was asked so far; a product with the derivative costs as much as a gradient."""

    def residual(self, x: Tensor) -> Tensor:
        return self._own * x + self._back(self._problem._slope_(self._scores(x), self._rows)) - self._r

    def derivative(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        curved = self._problem._curved(self._scores(x))
        return lambda v: self._own * v + self._back(curved(self._scores(v)))

    def _scores(self, x: Tensor) -> Tensor:
        return x.reshape(len(self._A), self._problem.scores, -1) @ self._A.mT

    def _back(self, slopes: Tensor) -> Tensor:
        self.gradients += 1
        return ((slopes * self._weights) @ self._A).view(self._r.shape)
