"""Parameter groups: an lr and a weight decay for each, over one flat vector."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


class Groups:
    """torch's ``param_groups``, whose lr a scheduler may change at any time. A group's lr moves x; it is never
    multiplied into the gradient that is tracked."""

    def __init__(self, groups: Sequence[dict[str, Any]], *, decay_inside: bool = False) -> None:
        """decay_inside: weight_decay is the inner optimizer's affair, and not added to the gradient."""
        self._decay_inside = decay_inside
        self.groups = groups
        """Loading a state gives the optimizer a new list."""
        named = list(_named(groups))
        self.trained = [pair for pairs in named for pair in pairs]
        """Every trainable parameter with a name, in the order of the groups."""
        if not self.trained:
            given = sum(len(group["params"]) for group in groups)
            raise ValueError(f"{given} parameters were given and none of them is trainable; give model.parameters()")
        self._sizes = [sum(p.numel() for _, p in pairs) for pairs in named]
        for group in groups:
            if not group["weight_decay"] >= 0:
                raise ValueError(f"weight_decay is {group['weight_decay']}; expected a number >= 0")
        self.check()
        self._vector: tuple[tuple[float, ...], Tensor] | None = None

    @property
    def rates(self) -> tuple[float, ...]:
        return tuple(float(group["lr"]) for group in self.groups)

    @property
    def settings(self) -> list[dict[str, Any]]:
        """All but the parameters and the lr."""
        beside = ("params", "param_names", "lr", "initial_lr")
        return [{key: value for key, value in group.items() if key not in beside} for group in self.groups]

    @property
    def decays(self) -> tuple[float, ...]:
        return tuple(float(group["weight_decay"]) for group in self.groups)

    def lr(self, like: Tensor) -> Any:
        """A number, or where the groups have different ones a vector of them."""
        rates = self.rates
        if len(set(rates)) == 1:
            return rates[0]
        if self._vector is None or self._vector[0] != rates:
            dtype = torch.promote_types(like.dtype, torch.float32)
            values = torch.tensor(rates, dtype=dtype, device=like.device)
            sizes = torch.tensor(self._sizes, device=like.device)
            self._vector = rates, torch.repeat_interleave(values, sizes)
        return self._vector[1]

    def add_decay(self, g: Tensor, x: Tensor) -> Tensor:
        """g += weight_decay * x, group by group; returns g."""
        if any(self.decays) and not self._decay_inside:
            for part, at, decay in zip(g.split(self._sizes), x.split(self._sizes), self.decays, strict=True):
                part.add_(at, alpha=decay)
        return g

    def check(self, *, zero: bool = False) -> None:
        """zero: a scheduler may have come to 0, as a warm-up does that begins there."""
        rates = self.rates
        for number, lr in enumerate(rates):
            if not (math.isfinite(lr) and (lr > 0 or (zero and lr == 0))):
                which = f" in parameter group {number}" * (len(rates) > 1)
                raise ValueError(f"lr is {lr}{which}; a learning rate is a finite number above 0" + " or 0" * zero)


def _named(groups: Sequence[dict[str, Any]]) -> Iterator[list[tuple[str, Tensor]]]:
    """The trainable parameters of every group, by the names of ``named_parameters()`` or by their numbers."""
    count = 0
    for group in groups:
        params = group["params"]
        names = group.get("param_names") or [f"parameter {count + i}" for i in range(len(params))]
        count += len(params)
        yield [(name, p) for name, p in zip(names, params, strict=True) if p.requires_grad]
