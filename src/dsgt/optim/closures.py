"""What a training script can compute for an oracle: its closure's gradient at any point, and a second closure's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from dsgt.core import Algorithm, Local

Closure: TypeAlias = Callable[[], Any]
COMPUTED = ("gradient", "full")


class Closures(Local):
    """``evaluate(closure, x)`` puts x into the parameters, calls the closure and gives its loss and its gradient."""

    def __init__(self, evaluate: Callable[[Closure, Tensor], tuple[Any, Tensor]], node: int | None) -> None:
        super().__init__(self._of_batch, torch.tensor([node or 0]))
        self._evaluate = evaluate
        self._batch: Closure | None = None
        self._all: Closure | None = None
        self.loss: Any = None
        """What the closure gave where it was first called in this step."""

    def begin(self, batch: Closure | None, full: Closure | None) -> None:
        """The closures of the next step."""
        self._batch, self._all, self.loss = batch, full, None

    def _of_batch(self, x: Tensor, k: int) -> Tensor:
        if self._batch is None:
            raise TypeError(
                "an oracle evaluates gradients itself: call step(closure), with a closure that computes the loss of "
                "the step's batch, calls backward() and gives the loss"
            )
        return self._called(self._batch, x)

    def full(self, x: Tensor) -> Tensor:
        if self._all is None:
            raise TypeError(
                "this oracle asks for the gradient of all of a node's samples in some steps: call step(closure, "
                "full=...), with a second closure that does for all samples what the first does for a batch"
            )
        return self._called(self._all, x)

    def _called(self, closure: Closure, x: Tensor) -> Tensor:
        loss, g = self._evaluate(closure, x)
        self.loss = loss if self.loss is None else self.loss
        return g


def check_oracle(algorithm: Algorithm[Any]) -> None:
    """Whether a training script can answer what the method asks."""
    lacking = [word for word in algorithm.asks.wants if word not in COMPUTED]
    if lacking or type(algorithm).point is not Algorithm.point:
        why = (
            "parts of a node's samples by number, and a closure knows its own batch only"
            if lacking == ["part"]
            else f"more than gradients at its model ({', '.join(lacking) or 'at another point'})"
        )
        raise ValueError(
            f"{type(algorithm).__name__} with {algorithm.asks} asks for {why}; use dsgt.run, or an oracle that an "
            "Optimizer can ask: SVRG, SARAH, STORM, Momentum or Stale"
        )
