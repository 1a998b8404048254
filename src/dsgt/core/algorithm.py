"""A method as mathematics, and the same method with an oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import field, make_dataclass
from functools import lru_cache
from typing import Any, ClassVar, Generic, Self, TypeAlias

import numpy as np
from torch import Tensor

from dsgt.core.inner import Inner
from dsgt.core.mix import Mix
from dsgt.core.needs import Needs
from dsgt.core.network import Network
from dsgt.core.oracle import Gradient, Local, Oracle
from dsgt.core.parameters import check_ranges
from dsgt.core.state import S, settle

Eigenvalues: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Polynomial: TypeAlias = "tuple[Eigenvalues | float, ...]"
"""Its coefficients, the highest power first: (1, b, d) is z^2 + b z + d."""


class Algorithm(ABC, Generic[S]):
    """A method as mathematics: two pure functions. The state is a NamedTuple whose first field x is the model.

    A method is a frozen dataclass; its fields, made with ``parameter``, are its parameters.

    The step is cut just after a gradient, so that one function is both ``optimizer.step()`` and the body of the
    simulator's loop. A ``Pending`` kept in the state flies while the next gradient is computed.
    """

    needs: ClassVar[Needs] = Needs()
    """Ask an instance: where the parameters decide it, it is a property."""
    sends: ClassVar[float]
    """How many m-vectors a node sends to each neighbour in a round, in the mean. Ask an instance, as for ``needs``."""
    exact: ClassVar[bool]
    """Whether a constant learning rate reaches the optimum when the nodes' data differ and gradients are exact."""
    tracker: ClassVar[tuple[str, str] | None] = None
    """Two fields of the state whose means over the nodes are equal after every round: the tracker and the gradient."""
    zero_sum: ClassVar[str | None] = None
    """A field of the state whose sum over the nodes stays zero."""
    inner: Inner | None = None
    """An optimizer of torch's that moves x, where the method has a parameter of this name."""
    asks: ClassVar[Oracle[Any]] = Gradient()
    """Where its gradients come from. Ask an instance, as for ``needs``."""
    keeps_x: ClassVar[bool] = False
    """Whether the state holds, or has sent, something made of x. If not, a round may begin with any other x: a model
    that was loaded, clamped or pruned between two steps."""
    uncoordinated: ClassVar[bool] = False
    """Whether the optimum is still reached where every node has a learning rate of its own."""
    published_lr: ClassVar[float | None] = None
    """The lr at which it is what was published, whatever the problem: for methods that are fitted to it, and that need
    so many rounds that their limit cannot be measured."""
    phase: ClassVar[int] = 1
    """So many rounds belong together, from a multiple of it on: what was begun in one is not begun anew within it."""
    equal_starts: ClassVar[bool] = False
    """Whether all nodes must begin with the same model."""
    divides_by_lr: ClassVar[bool] = False
    """Whether a learning rate of 0, where a warm-up begins, cannot be used."""
    remembers_lr: ClassVar[bool] = False
    """Whether it remembers steps in units of lr, so that a change of lr throws it back."""
    diverges: ClassVar[str] = ""
    """What else than the learning rate to think of where a run diverges."""
    arithmetic: ClassVar[bool] = False
    """Whether ``update`` is a text of + - * / and mixings only. Every coordinate of the model is then treated by
    itself, and ``update`` may be given NumPy's arrays, or be read as formulas, once for every learning rate, that are
    computed afterwards. Said of one ``update``: a subclass that writes another says it again."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "update" in cls.__dict__ and "arithmetic" not in cls.__dict__:
            cls.arithmetic = False
        if "update" in cls.__dict__ and "polynomial" not in cls.__dict__:
            cls.polynomial = Algorithm.polynomial  # type: ignore[method-assign]  # another update has another one

    def __post_init__(self) -> None:
        check_ranges(self)

    @abstractmethod
    def init(self, x: Tensor, mix: Mix) -> S:
        """The state before the first gradient, chosen so that ``update`` needs no first-round branch."""

    @abstractmethod
    def update(self, s: S, g: Tensor, mix: Mix, lr: float) -> S:
        """The state after a round; g is the (stochastic) gradient at ``s.x``, or what ``asks`` says at ``point(s)``."""

    def point(self, s: S) -> Tensor:
        """Where the oracle is asked; x stays the model."""
        x: Tensor = s[0]
        return x

    def asking(self, oracle: Oracle[Any]) -> Algorithm[S]:
        """The same method with the answers of this oracle in the place of gradients."""
        if type(self.asks) is not Gradient:
            raise ValueError(
                f"{type(self).__name__} already asks {self.asks} and cannot ask {oracle} too; leave the oracle out, or "
                "give it to a method that asks for gradients"
            )
        if type(oracle) is Gradient:
            return self
        return _remade(self, _asking(type(self)), vars(self) | {"oracle": oracle})

    def fitted(self, network: Network, f: Local) -> Algorithm[S]:
        """The same method with the parameters that it leaves open taken from the network that it has made, and from
        what the nodes know of their own functions. All nodes call it at once, before the first round; then ``over`` is
        asked once more, for weights that depend on it."""
        return self

    def knowing(self, **facts: object) -> Self:
        """The same method with these attributes, which are no parameters: what ``fitted`` has found."""
        made = copy(self)
        vars(made).update(facts)
        return made

    def over(self, network: Network) -> Network:
        """The network that the method runs on, made of the one it was given: a method may be another one that mixes
        rarely, or with random pairs."""
        return network

    def message_bytes(self, m: int, element: int = 4) -> float:
        """What a node sends to each neighbour in a round, in the mean, for m numbers of ``element`` bytes each."""
        return self.sends * m * element

    def shaped(self, shapes: Sequence[tuple[int, ...]]) -> Self:
        """The same method for a model whose parameters have these shapes, one after the other in its vector."""
        return self

    def model(self, s: S) -> Tensor:
        """What a user takes home: x, unless the method promises something of another point, such as an average."""
        x: Tensor = s[0]
        return x

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial | None:
        """The characteristic polynomial of x on f_i(x) = (L/2) |x - a_i|^2 with c = lr L, per eigenvalue w of W.

        The method is stable where all its roots lie inside the unit circle; a root 1 at w = 1 is tracking's own and
        does no harm. None where it is not known: the limit is then measured, so a new method need not give it.
        """
        return None


@lru_cache
def _asking(kind: type[Algorithm[S]]) -> type[Algorithm[S]]:
    """The method with one parameter more, its oracle: it then shows in its repr, in checkpoints and in comparisons."""
    made: type[Algorithm[S]] = make_dataclass(
        kind.__name__,
        [("oracle", Oracle, field(kw_only=True, metadata={"meaning": "where its gradients come from"}))],
        bases=(kind,),
        frozen=True,
        namespace={"asks": property(lambda self: self.oracle), "__reduce__": _again, "_plain": kind},
    )
    made.__doc__ = kind.__doc__
    made.__module__ = kind.__module__
    return made


def without_oracle(algorithm: Algorithm[S]) -> Algorithm[S]:
    """The method to which ``Algorithm.asking`` has added an oracle; itself where it has not."""
    kind = vars(type(algorithm)).get("_plain")
    if kind is None:
        return algorithm
    return _remade(algorithm, kind, {name: v for name, v in vars(algorithm).items() if name != "oracle"})


def _remade(algorithm: Algorithm[S], kind: type[Algorithm[S]], values: dict[str, Any]) -> Algorithm[S]:
    """With all that it was given: a class of one's own may take other arguments than its fields."""
    made = object.__new__(kind)
    vars(made).update(values)
    return made


def _again(made: Algorithm[S]) -> tuple[Any, ...]:
    """How to make it again in another process: its class is found nowhere by name."""
    return _asked, (without_oracle(made), made.asks)


def _asked(plain: Algorithm[S], oracle: Oracle[Any]) -> Algorithm[S]:
    return plain.asking(oracle)


def restart_tracking(algorithm: Algorithm[S], state: S, mix: Mix) -> S:
    """The same models, and everything else that the method remembers begun anew: mean(y) = mean(s) is true again.

    For a network that has lost a message or a node, which a tracker never forgets by itself. All nodes must do it in
    the same round; ``mix`` is the network that they go on with.
    """
    return algorithm.init(settle(state)[0], mix)
