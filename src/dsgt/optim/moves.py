"""How far y moves x. A method writes ``s.x - lr * y``; what stands for lr may be more than a number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dsgt.core import Inner
from dsgt.flat import views
from dsgt.optim.groups import Groups


class Clipped:
    """lr y, made shorter where the norm of y is above the limit. y itself, and so what is tracked, is not changed."""

    def __init__(self, lr: Any, limit: float) -> None:
        self._lr, self._limit = lr, limit

    def __mul__(self, y: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        moved: Tensor = self._lr * (y * (self._limit / norm.clamp(min=self._limit)))
        return moved


class InnerMoves:
    """``moves * y``: how far an optimizer of torch's moves x where y is the gradient."""

    def __init__(self, inner: Inner, groups: Groups, like: Tensor) -> None:
        self._groups = groups
        self._x = torch.empty_like(like)
        self._copies = [nn.Parameter(view) for view in views(self._x, [p for _, p in groups.trained])]
        self.optimizer = inner.kind(self._grouped(inner))  # type: ignore[call-arg]
        self._start: Tensor | None = None

    def at(self, x: Tensor) -> InnerMoves:
        self._start = x
        return self

    def __mul__(self, y: Tensor) -> Tensor:
        assert self._start is not None
        self._x.copy_(self._start)
        for p, part in zip(self._copies, views(y, self._copies), strict=True):
            p.grad = part
        for mine, theirs in zip(self.optimizer.param_groups, self._groups.groups, strict=True):
            mine |= {key: theirs[key] for key in mine if key in theirs and key not in ("params", "param_names")}
        self.optimizer.step()
        for p in self._copies:
            p.grad = None
        return self._start - self._x

    def blank(self) -> dict[str, Tensor]:
        """``tensors`` before the first step, which is what makes them."""
        zero = torch.zeros_like(self._x)
        self.at(zero) * zero
        return {name: torch.zeros_like(v) for name, v in self.tensors().items()}

    def tensors(self) -> dict[str, Tensor]:
        """What the inner optimizer remembers, as flat vectors, and one number a parameter where it counts."""
        found: dict[str, Tensor] = {}
        states = [self.optimizer.state[p] for p in self._copies]
        for key in states[0]:
            values = [state[key] for state in states]
            if all(isinstance(v, Tensor) and v.shape == p.shape for v, p in zip(values, self._copies, strict=True)):
                found[f"inner.{key}"] = torch.cat([v.reshape(-1) for v in values])
            elif all(v is None for v in values):
                continue
            elif all(isinstance(v, int | float) or (isinstance(v, Tensor) and v.numel() == 1) for v in values):
                found[f"inner.{key}"] = torch.tensor([float(v) for v in values], dtype=torch.float64)
            else:
                raise RuntimeError(
                    f"{type(self.optimizer).__name__} remembers {key!r} in a form that cannot be saved; use an "
                    "optimizer whose state has the shapes of the parameters"
                )
        return found

    def load(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of ``tensors``."""
        self.optimizer.state.clear()
        for key, value in tensors.items():
            name = key.removeprefix("inner.")
            parts = views(value, self._copies) if value.numel() == self._x.numel() else value.to(torch.float32).unbind()
            for p, part in zip(self._copies, parts, strict=True):
                self.optimizer.state[p][name] = part.clone()

    def _grouped(self, inner: Inner) -> list[dict[str, Any]]:
        """The groups with copies of their trainable parameters, and with what the inner optimizer knows."""
        copies, known = iter(self._copies), {"lr", *defaults(inner)}
        return [
            {key: group[key] for key in known} | {"params": [next(copies) for p in group["params"] if p.requires_grad]}
            for group in self._groups.groups
        ]


def defaults(inner: Inner | None) -> dict[str, Any]:
    """The options of the inner optimizer, which stand in the groups too: schedulers such as OneCycleLR change them."""
    if inner is None:
        return {}
    blank = inner.kind([nn.Parameter(torch.zeros(1, 1))], lr=1.0, **inner.options)  # type: ignore[call-arg]
    return {key: value for key, value in blank.defaults.items() if key != "lr"}
