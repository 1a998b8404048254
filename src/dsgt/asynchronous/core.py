"""What an asynchronous method is: a node wakes when its gradient is ready, takes what has come, tells, and goes on.

The cut is where ``Algorithm`` has it, just after a gradient: ``wake(s, g, mail, lr)`` is ``update(s, g, mix, lr)`` with
mail in the place of a mixing. A published "event" begins with communication and ends with a gradient; here the end of
one and the beginning of the next are one wake, so mail is read at one moment, and is one letter per neighbour and wake.
Nothing is sent before the first gradient, and nobody waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, NoReturn, TypeAlias

from torch import Tensor

from dsgt.asynchronous.mail import Mail
from dsgt.core import Needs, S, check_ranges
from dsgt.problems.base import Problem

Rate: TypeAlias = Callable[[int], Any]
"""k -> learning rate. A function, since AsySPA adds up several; a column (r, 1) where r runs are computed at once."""


class AsyncAlgorithm(ABC, Generic[S]):
    """A method as mathematics: pure functions of a node's state, a NamedTuple whose first field x is the model.

    Tensors are (..., m), without an axis of nodes; a leading axis of runs is the simulator's. ``wake`` uses elementwise
    arithmetic and ``mail``, and never writes into its arguments: a letter may hold them.
    """

    needs: ClassVar[Needs]
    """Of A, with which models are pulled; ``push`` of it is asked of P."""
    sends: ClassVar[float]
    """How many m-vectors a node sends to each neighbour at a wake. One that is given travels as a float64 total."""
    exact: ClassVar[bool]
    """Whether a constant learning rate reaches the optimum when the nodes' data and speeds differ."""

    asks: ClassVar[None] = None
    """Of an oracle: only for the gradients of drawn batches."""
    tracker: ClassVar[tuple[str, str] | None] = None
    zero_sum: ClassVar[str | None] = None
    """No two fields agree at a moment of a node's own: some of it is under way."""

    def __post_init__(self) -> None:
        """Called by a dataclass."""
        check_ranges(self)

    @abstractmethod
    def init(self, x: Tensor) -> S:
        """The state before the first gradient."""

    @abstractmethod
    def wake(self, s: S, g: Tensor, mail: Mail, lr: Rate) -> S:
        """The state after a gradient g was computed at ``s.x``, or at the x that it was before questions came."""

    @abstractmethod
    def rest(self, s: S, mail: Mail) -> S:
        """Take what has come, without a gradient: the end of a run."""

    @abstractmethod
    def held(self, s: S) -> Tensor:
        """What a node holds of what is given around: its sum over the nodes, and what is under way, is never lost."""

    def answer(self, s: S, j: int, v: Tensor, mail: Mail) -> S:
        """Node j asked v; at any moment, also during a gradient. Only methods that ask have it."""
        raise TypeError(f"{type(self).__name__} asks nothing, but was asked by node {j}")

    @property
    def answers(self) -> bool:
        """Whether nodes ask each other, so that somebody must listen during gradients."""
        return type(self).answer is not AsyncAlgorithm.answer

    def shaped(self, shapes: object) -> NoReturn:
        """What the doors of methods with rounds ask first: ``run`` this, and ``iterate`` the next."""
        self.over(shapes)

    def over(self, network: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} waits for nobody: use dsgt.run_async, which has no rounds")

    def model(self, s: S) -> Tensor:
        """What a user takes home."""
        x: Tensor = s[0]
        return x


def check_carried(problem: Problem) -> None:
    """Refuse a module that would be measured with statistics it no longer has."""
    if problem.remembers:
        raise ValueError(
            "the module has running statistics (BatchNorm), which asynchronous methods do not carry: use GroupNorm, or "
            "freeze them with .eval()"
        )
