"""The same algorithms as a torch.optim.Optimizer: ``zero_grad``, ``backward``, ``step`` as everyone writes it."""

from __future__ import annotations

from dsgt.optim.optimizer import Optimizer

__all__ = ["Optimizer"]
