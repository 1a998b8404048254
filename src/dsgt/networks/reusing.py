"""For methods that are not ``arithmetic``: their operators, too, write into memory that is used again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dsgt.networks.buffers import is_large


class Reusing(TorchFunctionMode):
    """Within it, sums and products of large tensors are written into memory that is used again.

    So a method is written as an equation, ``s.x - lr * y``, and runs as if it had named its temporary vectors."""

    def __init__(self, scratch: Callable[[Tensor], Tensor]) -> None:
        """scratch: a tensor -> memory for another one like it."""
        super().__init__()
        self._scratch = scratch

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        into = _INTO.get(func)
        if into is None or kwargs or not _elementwise(*args):
            return func(*args, **(kwargs or {}))
        return into(*args, out=self._scratch(args[0]))


_INTO: dict[Any, Callable[..., Tensor]] = {
    Tensor.add: torch.add,
    Tensor.sub: torch.sub,
    Tensor.mul: torch.mul,
    Tensor.div: torch.div,
}
"""What the operators of Python become, and the same with an ``out``."""


def _elementwise(a: Any, b: Any) -> bool:
    """Whether the result of an operation on them is like a, and large."""
    if not (isinstance(a, Tensor) and a.is_floating_point() and is_large(a)):
        return False
    if not isinstance(b, Tensor):
        return isinstance(b, int | float)
    return a.dtype == b.dtype and (a.shape == b.shape or b.shape == (1,))
