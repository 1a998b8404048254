"""What methods with compressed messages share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from dsgt.compression.base import Compressor
from dsgt.compression.sparse import TopK
from dsgt.core import Algorithm, S, parameter


@dataclass(frozen=True)
class Compressed(Algorithm[S]):
    """A method that sends what ``compress`` makes of its vectors."""

    compress: Compressor = parameter(TopK(0.01), "what of a vector is sent")

    needs_unbiased: ClassVar[bool] = False
    """Whether the compressor's mean must be the vector itself."""
    diverges: ClassVar[str] = (
        "gamma or lr is too large for this compressor: take a smaller one, or send more, as top-k:0.1 or quantise:8 do"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.compress, Compressor):
            raise TypeError(
                f"compress of {type(self).__name__} is {self.compress!r}; expected a compressor, for example "
                "compression.TopK(0.01)"
            )
        if self.needs_unbiased and not self.compress.unbiased:
            raise ValueError(
                f"{type(self).__name__} needs a compressor whose mean is the vector itself, but {self.compress} is "
                "biased; take quantise:4 or quantise:8, or BEER, CGT or CHOCO, which bear any contraction"
            )

    def message_bytes(self, m: int, element: int = 4) -> float:
        return self.sends * self.compress.bytes(m, element)

    def shaped(self, shapes: Sequence[tuple[int, ...]]) -> Self:
        return replace(self, compress=self.compress.shaped(shapes))
