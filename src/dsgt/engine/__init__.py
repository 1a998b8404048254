"""How a round is computed. The loop and the optimizer come in by one door, and the states are the same whichever way is
chosen behind it (docs/engine.md has the measurements):

- ``algorithm.update`` called with tensors, as it is written;
- called with NumPy arrays, for small simulations, where starting an operation takes longer than the operation;
- traced once, compiled and executed in place, for large tensors, where passes over memory are what takes the time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from dsgt.buffers import Buffers
from dsgt.core import Algorithm, Around, Mix, Network, S
from dsgt.engine import in_place, numpy_rounds
from dsgt.engine.allocator import keep_freed_memory
from dsgt.engine.in_place import InPlace
from dsgt.engine.learning_rate import PreparedRate
from dsgt.engine.numpy_rounds import NumpyRounds
from dsgt.networks.peers import Peers
from dsgt.threads import threads

State = TypeVar("State", covariant=True)

__all__ = ["Rounds", "Updates", "cores_for", "rounds"]

ONE_CORE_UP_TO = 1 << 16
"""Numbers in all models together: for fewer, one core is faster than several."""


class Rounds(Protocol[State]):
    """A run, round by round."""

    @property
    def point(self) -> Tensor:
        """Where the oracle is asked, in most methods the models. To be read only, and only before the next step."""

    @property
    def state(self) -> State:
        """The state, for anybody to keep: it is never overwritten."""

    def step(self, g: Tensor, mix: Mix, lr: float) -> None:
        """One round; g is what was answered at ``point``."""


def cores_for(numbers: int) -> AbstractContextManager[None]:
    """As many of torch's threads as are worth starting for so many numbers in all models together."""
    return threads(1 if numbers <= ONE_CORE_UP_TO else torch.get_num_threads())


def rounds(algorithm: Algorithm[S], network: Network, state: S) -> Rounds[S]:
    """The rounds that follow ``state``, in the way that is fastest for a run of its size on this network."""
    if algorithm.inner is not None:
        raise ValueError(
            f"{algorithm} moves x by an optimizer of torch's, which only dsgt.Optimizer does; simulate it without inner"
        )
    keep_freed_memory()
    if numpy_rounds.is_worthwhile(algorithm, network, state[0]):
        return NumpyRounds(algorithm, state)
    return TensorRounds(algorithm, Updates(algorithm, network), state)


class Updates(Generic[S]):
    """``algorithm.update``, in place for large tensors. ``keep_x``: the new x may be written over the old one, and what
    is computed from g over g."""

    def __init__(self, algorithm: Algorithm[S], network: Network, *, keep_x: bool = False) -> None:
        keep_freed_memory()
        self._algorithm = algorithm
        self._memory = _memory(network)
        self._in_place = InPlace(algorithm, self._memory, keep_x=keep_x)
        self._rate: PreparedRate | None = None
        self.overwrites = False
        """Whether states were made that are overwritten in the next round."""

    def __call__(self, s: S, g: Tensor, mix: Mix, lr: float) -> S:
        """lr may also be a vector, or anything else that a method can multiply y by."""
        if not isinstance(lr, float):
            return self._algorithm.update(s, g, mix, lr)
        if in_place.is_worthwhile(self._algorithm, s, g, mix):
            self.overwrites = True
            return self._in_place.update(s, g, mix, lr)
        if self._rate is None or self._rate != lr:
            self._rate = PreparedRate(lr, s[0].dtype)
        return self._algorithm.update(s, g, mix, self._rate)

    def scratch(self, v: Tensor) -> Tensor:
        """An uninitialised tensor like v, in memory that is used again."""
        return self._memory.scratch(v)


class TensorRounds(Generic[S]):
    """A run whose state is kept in tensors, some of which are overwritten in the next round."""

    def __init__(self, algorithm: Algorithm[S], update: Updates[S], state: S) -> None:
        self._point, self._update, self._state = algorithm.point, update, state

    @property
    def point(self) -> Tensor:
        x = self._point(self._state)
        return x.detach() if self._update.overwrites else x

    @property
    def state(self) -> S:
        return in_place.handed_out(self._state) if self._update.overwrites else self._state

    def step(self, g: Tensor, mix: Mix, lr: float) -> None:
        self._state = self._update(self._state, g, mix, lr)


def _memory(network: Network) -> Buffers:
    """Real nodes receive messages into their network's buffers, and may overwrite what has arrived like the rest."""
    if isinstance(network, Around):
        return _memory(network.inner)
    return network.buffers if isinstance(network, Peers) else Buffers.shared()
