"""Where a flat vector keeps which parameter: what is needed to make a model of it again, years later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self

from torch import Tensor


@dataclass(frozen=True)
class Place:
    """A parameter in the vector: entry (i, j, ...) is number ``offset + i strides[0] + j strides[1] + ...`` of it."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @classmethod
    def next_to(cls, name: str, shape: Sequence[int], offset: int) -> Self:
        """One whose numbers stand side by side, as in torch."""
        strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
        return cls(name, tuple(shape), strides, offset)

    def of(self, vector: Tensor) -> Tensor:
        return vector.as_strided(self.shape, self.strides, vector.storage_offset() + self.offset)


@dataclass(frozen=True)
class Layout:
    """Every parameter of a model; one that two layers share has two names and one place."""

    places: tuple[Place, ...]
    elsewhere: tuple[str, ...] = ()
    """What the model has besides, which the vector does not hold: frozen parameters and buffers."""

    def as_json(self) -> dict[str, Any]:
        places = [[p.name, list(p.shape), list(p.strides), p.offset] for p in self.places]
        return {"places": places, "elsewhere": list(self.elsewhere)}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        places = [Place(name, tuple(shape), tuple(strides), offset) for name, shape, strides, offset in saved["places"]]
        return cls(tuple(places), tuple(saved["elsewhere"]))
