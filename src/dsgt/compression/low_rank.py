"""Matrices as products of thin ones: what a model's weight matrices lose least by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar, Self

import torch
from torch import Tensor

from dsgt.compression.base import Compressor, Draw
from dsgt.compression.quantised import working
from dsgt.compression.wires import cut, finite, joined


@dataclass(frozen=True)
class LowRank(Compressor):
    """Every parameter M of two or more axes as P (P'M) of this rank, where P spans M times a few random directions;
    parameters that this makes no shorter, and vectors, as they are. What PowerSGD (Vogels, Karimireddy and Jaggi, 2019)
    sends, without its memory of the last round's directions.

    ``dsgt.Optimizer`` and ``dsgt.run`` know the shapes of the parameters, and fill them in.
    """

    rank: int = 2
    shapes: tuple[tuple[int, ...], ...] = ()
    seed: int = 0
    name: ClassVar[str] = "low-rank"
    unbiased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (isinstance(self.rank, int) and self.rank >= 1):
            raise ValueError(f"rank of LowRank is {self.rank}; expected a whole number from 1 on")

    def shaped(self, shapes: Sequence[tuple[int, ...]]) -> Self:
        return self if self.shapes else replace(self, shapes=tuple(map(tuple, shapes)))

    def __str__(self) -> str:
        return f"{self.name}:{self.rank}" + f" seed {self.seed}" * (self.seed != 0)

    def bytes(self, m: int, element: int = 4) -> int:
        return element * sum(self.rank * (a + b) if thin else a * b for a, b, thin in self._matrices(m))

    def variance(self, m: int) -> float:
        """At most: what random directions leave of the worst matrix, in the mean."""
        return max((1 - self.rank / min(a, b) for a, b, thin in self._matrices(m) if thin), default=0.0)

    def pack(self, v: Tensor, draw: Draw) -> Tensor:
        sent, m = [], v.shape[-1]
        matrices = list(self._matrices(m))
        columns = sum(b * self.rank for _, b, thin in matrices if thin)
        drawn = iter(
            (draw.uniform(self.seed).draw(columns) - 0.5)
            .to(v)
            .split([b * self.rank for _, b, thin in matrices if thin], dim=-1)
        )
        for part, (a, b, thin) in zip(v.split([a * b for a, b, _ in matrices], dim=-1), matrices, strict=True):
            if thin:
                M = part.unflatten(-1, (a, b))
                seen = M @ next(drawn).unflatten(-1, (b, self.rank))
                P = torch.linalg.qr(seen.to(working(v.dtype))).Q.to(v.dtype)
                sent += [P.flatten(-2), (P.mT @ M).flatten(-2)]
            else:
                sent.append(part)
        return joined(*sent) if sent else v.new_empty(*v.shape[:-1], 0, dtype=torch.uint8)

    def unpack(self, wire: Tensor, m: int, dtype: torch.dtype) -> Tensor:
        numbers = cut(wire, 0, self.bytes(m, 1), dtype)
        found, at = [], 0
        for a, b, thin in self._matrices(m):
            size = self.rank * (a + b) if thin else a * b
            part, at = numbers[..., at : at + size], at + size
            if thin:
                P, Q = part.split([a * self.rank, self.rank * b], dim=-1)
                part = (P.unflatten(-1, (a, self.rank)) @ Q.unflatten(-1, (self.rank, b))).flatten(-2)
            found.append(part)
        return finite(torch.cat(found, dim=-1)) if found else numbers.clone()

    def _matrices(self, m: int) -> Iterator[tuple[int, int, bool]]:
        """Rows, columns, and whether it is sent as thin ones."""
        if not self.shapes or sum(map(prod, self.shapes)) != m:
            raise ValueError(
                f"LowRank knows parameters of shapes {self.shapes}, but was given a vector of {m} numbers: use it in "
                "dsgt.Optimizer or dsgt.run, which know the shapes, or give LowRank(rank, shapes=((64, 10), (10,)))"
            )
        for shape in self.shapes:
            a, b = (shape[0], prod(shape[1:])) if len(shape) > 1 else (1, prod(shape))
            yield a, b, self.rank * (a + b) < a * b
