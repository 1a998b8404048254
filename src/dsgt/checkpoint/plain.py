"""A state_dict as JSON and tensors, and back exactly: numbers, words, lists, tables, tensors; never code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dsgt.checkpoint.part import CheckpointError


def pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """The value for JSON; its tensors are added to ``tensors`` under names that begin with ``name``.

    Numbers, words and lists are themselves. Anything else is a table of one entry that says what it is.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return pack(value.item(), name, tensors)
    if isinstance(value, Tensor):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tensors[name] = torch.from_numpy(np.frombuffer(value.tobytes(), dtype=np.uint8).copy())
        return {"array": [name, value.dtype.str, list(value.shape)]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Mapping):
        pairs = [[pack(k, f"{name}.key", tensors), pack(v, f"{name}.{k}", tensors)] for k, v in value.items()]
        return {"counter" if isinstance(value, Counter) else "table": pairs}
    if isinstance(value, list | tuple | set | frozenset):
        items = [pack(v, f"{name}.{i}", tensors) for i, v in enumerate(value)]
        return items if isinstance(value, list) else {"tuple" if isinstance(value, tuple) else "set": items}
    raise TypeError(
        f"{name} is a {type(value).__name__}, but a checkpoint holds numbers, words, lists, tables and tensors: give "
        "its owner a state_dict() of these"
    )


def unpack(packed: Any, tensors: Mapping[str, Tensor]) -> Any:
    """What ``pack`` was given, its tensors taken from ``tensors``."""
    if isinstance(packed, list):
        return [unpack(v, tensors) for v in packed]
    if not isinstance(packed, dict):
        return packed
    try:
        ((kind, held),) = packed.items()
        return _OPEN[kind](held, tensors)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"a saved state holds {str(packed)[:80]}, which no dsgt wrote: {error}") from error


def _array(held: Any, tensors: Mapping[str, Tensor]) -> np.ndarray[Any, Any]:
    name, dtype, shape = held
    return np.frombuffer(tensors[name].numpy().tobytes(), dtype=np.dtype(dtype)).reshape(shape).copy()


def _pairs(held: Any, tensors: Mapping[str, Tensor]) -> list[tuple[Any, Any]]:
    return [(unpack(k, tensors), unpack(v, tensors)) for k, v in held]


_OPEN: dict[str, Callable[[Any, Mapping[str, Tensor]], Any]] = {
    "tensor": lambda held, tensors: tensors[held],
    "array": _array,
    "bytes": lambda held, tensors: bytes.fromhex(held),
    "table": lambda held, tensors: dict(_pairs(held, tensors)),
    "counter": lambda held, tensors: Counter(dict(_pairs(held, tensors))),
    "tuple": lambda held, tensors: tuple(unpack(held, tensors)),
    "set": lambda held, tensors: set(unpack(held, tensors)),
}
