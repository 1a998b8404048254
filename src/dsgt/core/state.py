"""A state is a NamedTuple of tensors and messages on their way: how to wait for it, read it and write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

from dsgt.core.messages import Done, Pending

S = TypeVar("S", bound=tuple[Any, ...])


def settle(state: S) -> S:
    """The same state with every message arrived: what can be saved, compared and copied."""
    return changed(state, lambda _, f: Done(f.wait()) if isinstance(f, Pending) else f)


def tensors(state: tuple[Any, ...]) -> dict[str, Tensor]:
    """The fields of a state by name, waited for: what a checkpoint holds and a metric looks at."""
    found: dict[str, Tensor] = {}
    changed(state, lambda name, f: found.setdefault(name, f.peek() if isinstance(f, Pending) else f))
    return found


def with_tensors(state: S, values: dict[str, Tensor]) -> S:
    """The inverse of ``tensors``: a state of the same kind holding these values."""
    return changed(state, lambda name, old: Done(values[name]) if isinstance(old, Pending) else values[name])


def changed(state: S, change: Callable[[str, Any], Any]) -> S:
    """A state of the same kind with ``change(name, field)`` in every field. A field may be a tuple of messages, whose
    names are then "field.0", "field.1" and so on."""
    fields = [
        tuple(change(f"{name}.{i}", part) for i, part in enumerate(f)) if isinstance(f, tuple) else change(name, f)
        for name, f in zip(state._fields, state, strict=True)  # type: ignore[attr-defined]
    ]
    return type(state)(*fields)
