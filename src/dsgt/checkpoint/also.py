"""What a training loop has beside its model and optimizer: schedulers, scalers, samplers; and who was forgotten."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from torch import Tensor
from torch.amp import GradScaler
from torch.optim.lr_scheduler import LRScheduler

from dsgt.checkpoint.plain import pack, unpack

DEPTH = 3
"""How deep a scheduler may hide in what was given: a list of them, in an attribute, of an object."""


class Stateful(Protocol):
    """A scheduler, a GradScaler, a sampler: whatever says its state and takes it back."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state_dict: Any, /) -> Any: ...


def save_all(also: Mapping[str, Stateful], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Every state for JSON; the tensors in them are added to ``tensors``."""
    return {name: pack(one.state_dict(), f"also.{name}", tensors) for name, one in also.items()}


def load_all(also: Mapping[str, Stateful], saved: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    for name, one in also.items():
        one.load_state_dict(unpack(saved[name], tensors))


def forgotten(optimizer: object, also: Iterable[object]) -> list[str]:
    """What is not part of what was given, by kind: schedulers of this optimizer, and the scaler of this process.

    Not every scheduler leaves a trace in its optimizer (ReduceLROnPlateau leaves none), but all refer to it. A scaler
    does not say whose it is, so where there are several nothing is said of them.
    """
    alive = gc.get_objects()
    schedulers = [one for one in alive if _is(one, LRScheduler) and vars(one).get("optimizer") is optimizer]
    scalers = [one for one in alive if _is(one, GradScaler) and one.is_enabled()]
    given = {id(part) for one in also for part in _parts(one, DEPTH)}
    inner = {id(part) for one in schedulers for part in _parts(one, DEPTH) if part is not one}
    seen = [*schedulers, *(scalers if len(scalers) == 1 else [])]
    return sorted(type(one).__name__ for one in seen if id(one) not in given | inner)


def _is(one: object, kind: type) -> bool:
    return issubclass(type(one), kind)  # isinstance would ask proxies, some of which answer by doing something


def _parts(one: object, depth: int) -> Iterator[object]:
    """The object and what it holds."""
    yield one
    if depth:
        held: Iterable[object] = ()
        if isinstance(one, list | tuple):
            held = one
        elif isinstance(one, Mapping):
            held = one.values()
        elif hasattr(one, "state_dict"):
            held = vars(one).values()
        for part in held:
            yield from _parts(part, depth - 1)
