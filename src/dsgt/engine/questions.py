"""An oracle that is asked round after round: what it remembers, and what its answers have cost."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dsgt.core import Gradient, Local, Oracle, tensors, with_tensors


class Questions:
    """The memory lives here and nowhere else, so an oracle may write its tables in place."""

    def __init__(self, oracle: Oracle[Any], f: Local, x: Tensor) -> None:
        self._oracle, self._f = oracle, f
        oracle.check(f, x)
        self.memory: tuple[Any, ...] = oracle.init(f, x)
        self.work: float | Tensor = 0.0
        """What all answers have cost each node, in gradients of a drawn batch."""
        self.cost: float | Tensor = 0.0
        """What the last answer has cost; the first one has also paid for ``init``."""

    @property
    def remembers(self) -> bool:
        """Whether the answers depend on earlier rounds."""
        return len(self.memory) > 0 or len(self.kept) > 0

    def __call__(self, x: Tensor, k: int, lr: float) -> Tensor:
        g, self.memory = self._oracle.ask(self.memory, self._f, x, k, lr)
        self.cost = self._f.bill()
        self.work = self.work + self.cost
        return g

    @property
    def kept(self) -> dict[str, Tensor]:
        """What the nodes here remember besides their models."""
        return self._f.kept

    def progress(self) -> dict[str, Tensor]:
        """What a checkpoint must hold."""
        kept = {f"kept.{name}": v for name, v in self._f.kept.items()}
        if type(self._oracle) is Gradient:
            return kept
        rows = self._f.rows
        work = torch.as_tensor(self.work, dtype=torch.float64).expand(rows.shape[:-1])
        return {"work": work.clone()} | tensors(self.memory) | kept

    def restore(self, progress: dict[str, Tensor]) -> None:
        """Go on from there."""
        values = {name: t.to(self._f.rows.device) for name, t in progress.items()}
        for name, kept in self._f.kept.items():
            kept.copy_(values.pop(f"kept.{name}"))
        if not values:
            return
        self.work = values.pop("work").cpu()
        self.memory = with_tensors(self.memory, values)
        self._f.bill()
