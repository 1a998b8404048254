"""Logistic regression, for two classes or many: F(x) = (1/N) sum -log p(label) + (l2/2) |x|^2."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from dsgt.data.samples import DataLike
from dsgt.data.sampling import Sampling
from dsgt.data.shards import Shards
from dsgt.problems.erm import check_labels
from dsgt.problems.linear import LinearModel, at_targets
from dsgt.problems.newton import minimise


class Logistic(LinearModel):
    """Two classes: one score per sample, p(1) = sigmoid(z), m = d + 1. C classes: p = softmax(z), m = C (d + 1)."""

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
            self.rows = self.rows * (1 - 2 * self.data.targets[:, None].to(self.rows.dtype))

    def _slope_(self, z: Tensor, rows: Tensor) -> Tensor:
        if self.scores == 1:
            return z.sigmoid_()
        labels = self.data.targets.index_select(0, rows.reshape(-1)).view(*z.shape[:-2], 1, -1)
        return z.softmax(dim=-2).scatter_(-2, labels, -1.0, reduce="add")

    def _loss_of_scores(self, z: Tensor, targets: Tensor) -> Tensor:
        if self.scores == 1:
            sign = 1 - 2 * targets.to(z.dtype)
            return torch.nn.functional.softplus(sign * z[..., 0, :])
        return z.logsumexp(dim=-2) - at_targets(z, targets)

    def _hessian_times(self, x: Tensor, v: Tensor) -> Tensor:
        """A' (diag(p) - p p') A v / N + l2 v."""
        A = self.rows.to(x.dtype)
        z, dz = A @ x.view(self.scores, -1).mT, A @ v.view(self.scores, -1).mT
        if self.scores == 1:
            p = z.sigmoid()
            dp = p * (1 - p) * dz
        else:
            p = z.softmax(dim=-1)
            dp = p * (dz - (p * dz).sum(dim=-1, keepdim=True))
        return (dp.mT @ A).flatten() / self.samples + self.l2 * v

    @cached_property
    def optimum(self) -> Tensor | None:
        """Found by Newton's method at first use, to rounding; None without l2, where separable data have no optimum."""
        if not self.l2 or self.node is not None:
            return None
        return minimise(self.start(0), self.loss, self.gradient, self._hessian_times)

    @cached_property
    def smoothness(self) -> float:
        """An upper bound on L: c lambda_max(A'A) / N + l2, with c = 1/4 for two classes and 1/2 for more (Böhning)."""
        top = torch.linalg.matrix_norm(self.rows.double(), 2).square()
        return float(top) / self.samples * (0.25 if self.scores == 1 else 0.5) + self.l2
