"""An optimizer of torch's inside a method."""

from __future__ import annotations

import inspect
from typing import Any

import torch


class Inner:
    """An optimizer of torch's as a parameter of a method, y in the place of the gradient (the paper's section 2.2).

    ``Inner(torch.optim.AdamW, betas=(0.9, 0.95))``: a class and its options; lr is the parameter groups' own.

    Only ``dsgt.Optimizer`` knows the parameters that it moves, so only there it works.
    """

    def __init__(self, kind: type[torch.optim.Optimizer], **options: Any) -> None:
        if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
            raise TypeError(f"Inner was given {kind!r}; expected a class such as torch.optim.AdamW, and its options")
        if inspect.signature(kind.step).parameters["closure"].default is inspect.Parameter.empty:
            raise ValueError(
                f"{kind.__name__} evaluates the loss many times a step, which no method here does; use another"
            )
        if "lr" in options:
            raise ValueError("Inner was given lr; give it to dsgt.Optimizer or to its parameter groups")
        self.kind, self.options = kind, options

    def __repr__(self) -> str:
        return f"Inner({', '.join([self.kind.__name__, *(f'{k}={v}' for k, v in sorted(self.options.items()))])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inner) and (self.kind, self.options) == (other.kind, other.options)

    def __hash__(self) -> int:
        return hash(repr(self))
