"""Where gradients come from: what a node can compute of its own function, and who asks for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor

from dsgt.core.parameters import check_ranges

E = TypeVar("E", bound=tuple[Any, ...])

LACKING = {
    "full": "the gradient of all of a node's samples",
    "part": "the gradient of a part of a node's samples",
    "resolvent": "resolvents, that is, the x with x + lr gradient(x) = v",
    "conjugate": "conjugates, that is, the x whose gradient is u",
}
"""What a ``Local`` may be asked for and not be able to compute, in words."""


class Local:
    """What the nodes here can compute of their f_i. The network minimises the mean of all f_i.

    Points and answers are (n, m) where all nodes live in this process, (m,) on a real node. Problems that know more
    than the gradient of a drawn batch say so in a subclass; the rest is refused."""

    def __init__(self, gradient: Callable[[Tensor, int], Tensor], rows: Tensor, seed: int = 0) -> None:
        self._gradient = gradient
        self.seed = seed
        """Of the run: what an oracle draws is a function of it, of the oracle's own stream, ``rows`` and the round."""
        self.rows = rows
        """The numbers of the nodes that live here, (..., 1): what they draw depends on them."""
        self.whole: float | Tensor = 1.0
        """What a look at all of a node's samples costs, in gradients of a drawn batch: a number, or (n,)."""
        self.spent: float | Tensor = 0.0
        """What the answers since the last ``bill`` have cost, in the same unit."""
        self.kept: dict[str, Tensor] = {}
        """What ``gradient`` remembers besides the models, such as a module's running statistics: a row a node."""

    def gradient(self, x: Tensor, k: int) -> Tensor:
        """Of the samples drawn in round k, at any point."""
        self.spent = self.spent + 1.0
        return self._gradient(x, k)

    def full(self, x: Tensor) -> Tensor:
        """The exact gradient of f_i."""
        raise self._lacks(LACKING["full"])

    def part(self, x: Tensor, j: Tensor, q: int) -> Tensor:
        """f_i is the mean of q parts, whatever the number of its samples: the gradient of node i's part j_i, where j is
        (..., 1)."""
        raise self._lacks(LACKING["part"])

    def resolvent(self, v: Tensor, j: Tensor, q: int, lr: float) -> Tensor:
        """The x with x + lr part(x, j, q) = v."""
        raise self._lacks(LACKING["resolvent"])

    def conjugate(self, u: Tensor, near: Tensor) -> Tensor:
        """The x at which the gradient of f_i is u; ``near`` is a guess, such as the answer of the round before."""
        raise self._lacks(LACKING["conjugate"])

    def inverse(
        self, r: Tensor, j: Tensor, q: int, own: float | Tensor, weight: float | Tensor, near: Tensor
    ) -> Tensor:
        """The x with own x + weight (the gradient of part j without its penalty) = r: what the two above are made of.
        ``weight`` may be negative, as long as the left side grows with x."""
        raise self._lacks("inverses of gradients")

    def penalty(self) -> float:
        """l2: f_i is (l2/2) |x|^2 and the mean of its parts without it."""
        raise self._lacks("its penalty")

    def convexity(self) -> Tensor:
        """How strongly convex f_i is at least, (..., 1); 0 where it may be flat."""
        raise self._lacks("how strongly convex a node's function is")

    def smoothness(self, q: int) -> Tensor:
        """An L of every part of f_i without its penalty, (..., q)."""
        raise self._lacks("how curved a node's function is")

    def check(self, wants: Sequence[str], q: int = 1) -> None:
        """An error that says why, if one of these words is not computed here, or not for q parts; nothing is
        computed."""
        for word in wants:
            if word in LACKING and getattr(type(self), word) is getattr(Local, word):
                raise self._lacks(LACKING[word])

    def bill(self) -> float | Tensor:
        """What the answers since the last one have cost."""
        spent, self.spent = self.spent, 0.0
        return spent

    def _lacks(self, what: str) -> Exception:
        return TypeError(f"{type(self).__name__} does not compute {what}; use a problem that does, or another method")


class Oracle(ABC, Generic[E]):
    """Where a method's gradients come from: two functions and a memory, a NamedTuple of tensors.

    A frozen dataclass; its fields, made with ``parameter``, are its parameters. The memory belongs to whoever asks, and
    ``ask`` may write over what it was given; it never hands out memory that it will write over later."""

    wants: ClassVar[tuple[str, ...]] = ("gradient",)
    """What it asks a ``Local`` for. Ask an instance: where the parameters decide it, it is a property."""
    keeps: ClassVar[int] = 0
    """How many m-vectors a node keeps for it. Ask an instance, as for ``wants``."""
    agrees: ClassVar[bool] = False
    """Whether it answers with the gradient itself where all samples of a node agree: a method is then stable for the
    same learning rates as with gradients. Else they are measured."""

    def __post_init__(self) -> None:
        check_ranges(self)

    def check(self, f: Local, x: Tensor) -> None:
        """Whatever could be wrong comes out here, before any work: what the problem lacks, more parts than a node has
        samples, a memory that does not fit."""
        f.check(self.wants)

    @abstractmethod
    def init(self, f: Local, x: Tensor) -> E:
        """The memory before the first round, which begins at x."""

    @abstractmethod
    def ask(self, memory: E, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, E]:
        """The answer of round k at the point x, and the memory after it."""


class Nothing(NamedTuple):
    """An oracle that remembers nothing."""


@dataclass(frozen=True)
class Gradient(Oracle[Nothing]):
    """The gradient of the drawn batch, as it is."""

    agrees: ClassVar[bool] = True

    def init(self, f: Local, x: Tensor) -> Nothing:
        return Nothing()

    def ask(self, memory: Nothing, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Nothing]:
        return f.gradient(x, k), memory
