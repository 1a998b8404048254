"""Convex problems without gradients everywhere: hinge loss, absolute deviations, and least squares with an l1 penalty.

What they give in the place of gradients are subgradients; 0 where a loss or a penalty has a kink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np
import scipy
import torch
from torch import Tensor

from dsgt.data.batches import Drawn
from dsgt.data.samples import DataLike
from dsgt.data.sampling import Sampling
from dsgt.data.shards import Shards
from dsgt.problems.erm import check_labels, check_numbers
from dsgt.problems.linear import LinearModel

Which = TypeVar("Which")


class Hinge(LinearModel):
    """A support vector machine for two classes: F(x) = (1/N) sum max(0, 1 - y z) + (l2/2) |x|^2, y = -1 for the label 0
    and 1 for the label 1. The penalty is on the intercept too."""

    def __init__(
        self,
        data: DataLike,
        shards: Shards,
        sampling: Sampling,
        *,
        test: DataLike | None = None,
        intercept: bool = True,
        l2: float = 0.0,
    ) -> None:
        super().__init__(data, shards, sampling, scores=1, test=test, intercept=intercept, l2=l2)
        check_labels(self.data, 2, "training")
        if self.test is not None:
            check_labels(self.test, 2, "test")
        # With the sign of the wrong answer in the row, a loss is max(0, 1 + z): no labels.
        self.rows = self.rows * (1 - 2 * self.targets[:, None].to(self.rows.dtype))

    def _slope_(self, z: Tensor, rows: Tensor) -> Tensor:
        return (z > -1).to(z.dtype)

    def _loss_of_scores(self, z: Tensor, targets: Tensor) -> Tensor:
        return (1 + (1 - 2 * targets.to(z.dtype)) * z[..., 0, :]).clamp(min=0)


class AbsoluteDeviations(LinearModel):
    """F(x) = (1/N) sum |a'x - t| + (l2/2) |x|^2: l1 regression. Where a is one number, the optimum is a median of the
    t / a, weighted with |a|."""

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
        check_numbers(self.data, "l1 regression")

    def _slope_(self, z: Tensor, rows: Tensor) -> Tensor:
        return z.sub_(self.targets.index_select(0, rows.reshape(-1)).view(z.shape)).sign_()

    def _loss_of_scores(self, z: Tensor, targets: Tensor) -> Tensor:
        return (z[..., 0, :] - targets).abs()

    @cached_property
    def optimum(self) -> Tensor | None:
        """Without a penalty, by linear programming: minimise the mean of s with -s <= a'x - t <= s."""
        if self.l2 or self.node is not None:
            return None
        A, t = self.rows.double().cpu().numpy(), self.targets.double().cpu().numpy()
        (N, m), one = A.shape, scipy.sparse.eye_array(len(A))
        weights = np.concatenate([np.zeros(m), np.full(N, 1 / N)])
        within = scipy.sparse.block_array([[A, -one], [-A, -one]])
        free, positive = (None, None), (0, None)
        bounds = [free] * m + [positive] * N
        found = scipy.optimize.linprog(weights, within, np.concatenate([t, -t]), bounds=bounds)
        return torch.as_tensor(found.x[:m], dtype=self.rows.dtype, device=self.rows.device)


class Lasso(LinearModel):
    """F(x) = (1/N) sum (a'x - t)^2 / 2 + l1 |x|_1 + (l2/2) |x|^2; |x|_1 counts the intercept too."""

    def __init__(
        self,
        data: DataLike,
        shards: Shards,
        sampling: Sampling,
        *,
        l1: float,
        test: DataLike | None = None,
        intercept: bool = False,
        l2: float = 0.0,
    ) -> None:
        super().__init__(data, shards, sampling, scores=1, test=test, intercept=intercept, l2=l2)
        check_numbers(self.data, "least squares")
        if not 0 < l1 < float("inf"):
            raise ValueError(f"l1 is {l1}, but a penalty is a finite number above 0; without one use LeastSquares")
        self.l1 = l1

    def _slope_(self, z: Tensor, rows: Tensor) -> Tensor:
        return z.sub_(self.targets.index_select(0, rows.reshape(-1)).view(z.shape))

    def _loss_of_scores(self, z: Tensor, targets: Tensor) -> Tensor:
        return (z[..., 0, :] - targets).square() / 2

    def gradient_of(self, drawn: Drawn[Which]) -> Callable[[Tensor, Which], Tensor]:
        smooth, l1 = super().gradient_of(drawn), self.l1
        return lambda x, which: smooth(x, which).add_(x.sign(), alpha=l1)

    def loss(self, x: Tensor) -> Tensor:
        return super().loss(x) + self.l1 * x.abs().sum(dim=-1)

    def gradient(self, x: Tensor) -> Tensor:
        return super().gradient(x) + self.l1 * x.sign()

    def identity(self) -> Mapping[str, Tensor | str]:
        return {**super().identity(), "l1": str(self.l1)}
