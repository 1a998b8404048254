"""A run on its way to infinity: how it is noticed in a gradient, and the error that says so."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dsgt.core import Algorithm, Network
from dsgt.problems.base import Problem


@dataclass(frozen=True, eq=False)
class Attempt:
    """The run that diverged, for who can say why: ``theory.explain``."""

    algorithm: Algorithm[Any]
    problem: Problem
    network: Network
    x0: Tensor
    seed: int


class DivergedError(ArithmeticError):
    """A run is on its way to infinity: a gradient or a loss is no number any more, or the loss is beyond its limit."""

    def __init__(
        self,
        node: int,
        k: int,
        lr: float,
        *,
        what: str = "",
        hint: str = "",
        where: str = "",
        attempt: Attempt | None = None,
    ) -> None:
        self.node, self.k, self.lr, self.where, self.attempt = node, k, lr, where, attempt
        self.everywhere = bool(what)
        """Whether every node has seen it: the loss is measured by all, a gradient by one."""
        self.what = what or f"the gradient of node {node} in round {k} is not finite"
        hint = hint or "the data holds a NaN, or lr is too large: lower it, or use weights with a wider stability limit"
        super().__init__(f"{self.what} (lr = {lr:g}); {hint}{where and '; '}{where}")

    def told(self, *, hint: str = "", where: str = "", attempt: Attempt | None = None) -> DivergedError:
        """The same error with what somebody else knows about it."""
        what = self.what if self.everywhere else ""
        where, attempt = where or self.where, attempt or self.attempt
        return DivergedError(self.node, self.k, self.lr, what=what, hint=hint, where=where, attempt=attempt)


def changed_lr(algorithm: Algorithm[Any], before: float | None, now: float) -> None:
    """Warns where a method bears no other lr than the one it began with; in the same words, so once."""
    if algorithm.remembers_lr and before is not None and before != now:
        warnings.warn(
            f"{type(algorithm).__name__} remembers steps in units of lr, and lr changes: each change throws it back "
            "for some rounds; use LEAD, which does not mind",
            stacklevel=3,
        )


def check_gradient(g: Tensor, x: Tensor, network: Network, k: int, lr: float, hint: str = "") -> None:
    """hint: what to think of first, if not of the learning rate."""
    check_shape(g, x)
    check_finite(g, network, k, lr, hint)


def check_shape(g: Tensor, x: Tensor) -> None:
    if g.shape != x.shape:
        raise ValueError(f"the gradient has shape {tuple(g.shape)}, but the models have shape {tuple(x.shape)}")


def check_finite(g: Tensor, network: Network, k: int, lr: float, hint: str = "") -> None:
    """For a gradient, or some columns of it."""
    if not math.isfinite(_total(g)):  # one cheap pass; only a suspicion is looked at closely
        finite = g.isfinite().all(dim=-1)
        if not finite.all():
            node = network.node if network.node is not None else int((~finite).nonzero()[0])
            raise DivergedError(node, k, lr, hint=hint)


def _total(g: Tensor) -> float:
    """A number that is finite only if all of g is; for a small g NumPy, which knows no bfloat16, is quicker to ask."""
    if g.is_cpu and g.numel() <= 10_000 and not g.requires_grad and g.dtype is not torch.bfloat16:
        numbers = g.numpy()
        return float(np.vdot(numbers, numbers))
    return float(g.detach().sum())
