"""A model's trainable parameters as one flat vector, and their gradients as another."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dsgt.flat import apart, flattened, views

_USED = "_used_by_dsgt"
"""What a gradient is told that a step has used it: its version then."""


class Parameters:
    """Parameters have their memory in ``vector``, so that a message is one tensor. Their gradients are where autograd
    puts them, as with torch's own optimizers, and are put together when a step begins."""

    def __init__(self, named: Sequence[tuple[str, Tensor]], *, unused: str) -> None:
        if unused not in ("error", "zero"):
            raise ValueError(f"unused is {unused!r}; expected 'error' or 'zero', for parameters without a gradient")
        self.names, self.tensors = [name for name, _ in named], [p for _, p in named]
        self._unused = unused
        _check_alike(named)
        self.vector = flattened(self.tensors)
        self._views = _Views(self.vector, self.tensors)
        for p, view in zip(self.tensors, self._views.parts, strict=True):
            p.data = apart(view)
        self._fresh: set[int] = set()
        for p in self.tensors:
            p.register_post_accumulate_grad_hook(_announcer(self, p))
        self.clear()

    def clear(self, *, to_none: bool = True) -> None:
        """No gradients, or gradients of zero, which are no new ones."""
        for p in self.tensors:
            if to_none or p.grad is None:
                p.grad = None
            else:
                p.grad = p.grad.detach().zero_()
        self.used()

    def used(self) -> None:
        """From here on only new gradients count."""
        self._fresh.clear()
        for p in self.tensors:
            if p.grad is not None:
                setattr(p.grad, _USED, p.grad._version)

    def announce(self, p: Tensor) -> None:
        """Called by autograd when it has added to the gradient of p."""
        self._fresh.add(id(p))

    def follow(self) -> None:
        """Go on with the parameters as they are now: one that was given other memory (``p.data = t``) is copied back
        into the vector and linked again."""
        dtype = self.vector.dtype
        for i, (p, place) in enumerate(zip(self.tensors, self._views.places, strict=True)):
            if p.data_ptr() == place and p.dtype == dtype and p.is_contiguous():
                continue
            name, view = self.names[i], self._views.parts[i]
            if p.shape != view.shape or p.dtype != view.dtype or p.device != view.device:
                raise RuntimeError(
                    f"{name} is {_kind(p)} now, but was {_kind(view)} when the optimizer was made: convert the model "
                    "first (model.to, model.double) and make the optimizer afterwards"
                )
            view.copy_(p)
            p.data = apart(view)

    def collect(self, out: Tensor) -> Tensor:
        """The flat gradient in ``out``, as backward or the script left it in the parameters' ``grad``."""
        by_hand = not self._fresh
        return torch.cat([self._gradient(i, p, by_hand).reshape(-1) for i, p in enumerate(self.tensors)], out=out)

    def _gradient(self, i: int, p: Tensor, by_hand: bool) -> Tensor:
        """by_hand: backward was not called, so what was written into since the last step counts too."""
        grad = p.grad
        if grad is not None:
            used = getattr(grad, _USED, None)  # None: a tensor that was set since
            if id(p) in self._fresh or used is None or (by_hand and used != grad._version):
                return grad if grad.layout is torch.strided else grad.to_dense()
        self._without(self.names[i], p)
        return torch.zeros_like(p)

    def _without(self, name: str, p: Tensor) -> None:
        if self._unused == "zero":
            return
        lacking = f"{name} of shape {tuple(p.shape)} has" if self._fresh else "the parameters have"
        raise RuntimeError(
            f"{lacking} no new gradient: call loss.backward() before every step(), with a loss that depends on every "
            "parameter; freeze those that are not trained with requires_grad_(False), or give unused='zero' where some "
            "are not used in every step"
        )


class _Views:
    """The parts of a vector that belong to the parameters. Nobody else is given these objects, whose memory could then
    be changed (``p.grad.data = t``), and asking for a part's place again takes longer than the rest of a look at it."""

    def __init__(self, vector: Tensor, like: Sequence[Tensor]) -> None:
        self.parts = list(views(vector, like))
        self.places = [part.data_ptr() for part in self.parts]


def _check_alike(named: Sequence[tuple[str, Tensor]]) -> None:
    kinds = {(p.dtype, p.device): name for name, p in named}
    if len(kinds) > 1:
        found = ", ".join(f"{name}: {dtype} on {device}" for (dtype, device), name in kinds.items())
        raise ValueError(
            f"the parameters have different dtypes or devices ({found}); one flat vector holds them all: convert the "
            "model with model.to(device, dtype)"
        )


def _kind(v: Tensor) -> str:
    return f"{tuple(v.shape)} {str(v.dtype).removeprefix('torch.')} on {v.device}"


def _announcer(parameters: Parameters, p: Tensor) -> Callable[[Tensor], None]:
    """A hook that lives as long as the parameter, and must not keep the optimizer alive."""
    known = weakref.ref(parameters)

    def announce(_: Tensor) -> None:
        if (alive := known()) is not None:
            alive.announce(p)

    return announce
