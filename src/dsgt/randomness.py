"""Random numbers without state: a number is a function of its seed and its coordinates.

What node i draws in round k depends on (seed, i, k) only. So the simulator draws for all nodes at once, a real node
draws its own numbers and they are the same, evaluating disturbs nothing, and resuming needs no generator's state.
The function is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), applied once per coordinate. NumPy computes
it, on the CPU, because it has the unsigned 64-bit integers that torch lacks; what comes out are torch tensors.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

Hash: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
Coordinate: TypeAlias = "Tensor | np.ndarray[Any, Any] | int"

_ONE_AT_A_TIME = RLock()
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.float64(1).view(np.uint64)  # the bits of 1.0: its exponent, and a fraction of 52 zeros


def _scramble_(z: Hash) -> Hash:
    """In place, because these passes over a fresh array are what drawing costs."""
    shifted = z >> np.uint64(30)
    z ^= shifted
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= np.right_shift(z, np.uint64(27), out=shifted)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= np.right_shift(z, np.uint64(31), out=shifted)
    return z


def absorb(z: Hash | int, *coordinates: Coordinate) -> Hash:
    """The state of the hash after these coordinates; ``z`` is a seed, or the state after earlier coordinates.

    A seed is scrambled before the first coordinate is added: otherwise node 1 of seed 0 would be node 0 of seed 1.
    """
    if isinstance(z, int):
        z = _scramble_((_unsigned(z) + np.uint64(1)) * _GOLDEN)
    for c in coordinates:
        z = np.atleast_1d(z) * _GOLDEN + (_unsigned(c) + np.uint64(1)) * _GOLDEN  # multiplied before broadcast
        _scramble_(z)
    return z


def _unsigned(c: Coordinate) -> Hash:
    """As an array of at least one axis: NumPy warns of the wrap-around of single numbers, which is what we want."""
    array = c.cpu().numpy() if isinstance(c, Tensor) else np.asarray(c)
    return np.atleast_1d(array).astype(np.int64, copy=False).view(np.uint64)


def bits_of(z: Hash) -> Tensor:
    """63 random bits, as int64 >= 0, from states of the hash: the last coordinate has been scrambled already."""
    return torch.from_numpy((z >> np.uint64(1)).view(np.int64))


def uniform_of(z: Hash) -> Tensor:
    """Uniform on [0, 1), float64, from states of the hash."""
    return torch.from_numpy(_unit(z))


def integers_of(high: Tensor | int, z: Hash) -> Tensor:
    """Uniform on 0 ... high - 1, from states of the hash; high may differ from point to point.

    A product, because a 64-bit remainder costs ten times as much. The bias, high / 2^52, cannot be measured.
    """
    below = high.cpu().numpy() if isinstance(high, Tensor) else high
    return torch.from_numpy((_unit(z) * below).astype(np.int64))


def _unit(z: Hash) -> np.ndarray[Any, np.dtype[np.float64]]:
    """52 bits and not 53, so that ``unit * high`` stays below ``high`` after rounding.

    As the fraction of a number in [1, 2), which costs a third of converting an integer."""
    u: np.ndarray[Any, np.dtype[np.float64]] = (z >> np.uint64(12) | _ONE).view(np.float64)
    u -= 1.0
    return u


def bits(seed: int, *coordinates: Coordinate) -> Tensor:
    """63 random bits, as int64 >= 0, for every point of the broadcast coordinates."""
    return _at(bits_of(absorb(seed, *coordinates)), coordinates)


def uniform(seed: int, *coordinates: Coordinate) -> Tensor:
    """Uniform on [0, 1), float64, for every point of the broadcast coordinates."""
    return _at(uniform_of(absorb(seed, *coordinates)), coordinates)


def integers(high: Tensor | int, seed: int, *coordinates: Coordinate) -> Tensor:
    """Uniform on 0 ... high - 1, for every point of the broadcast coordinates."""
    return _at(integers_of(high, absorb(seed, *coordinates)), (*coordinates, high))


def _at(drawn: Tensor, coordinates: tuple[Coordinate, ...]) -> Tensor:
    """Without the axis that single numbers were given, and on the coordinates' device."""
    tensors = [c for c in coordinates if isinstance(c, Tensor)]
    if not any(np.ndim(c) if not isinstance(c, Tensor) else c.ndim for c in coordinates):
        drawn = drawn.reshape(())
    return drawn.to(tensors[0].device) if tensors else drawn


class Draws:
    """Uniform numbers on [0, 1) by their index, for those who need one at a time: hashed a block at a time, since a
    single one costs 30 times as much."""

    BLOCK = 1024

    def __init__(self, seed: int, *coordinates: int) -> None:
        self._state = absorb(seed, *coordinates)
        self._block = -1, [0.0]

    def __call__(self, index: int) -> float:
        at, within = divmod(index, self.BLOCK)
        known, values = self._block
        if at != known:
            indices = np.arange(at * self.BLOCK, (at + 1) * self.BLOCK)
            values = _unit(absorb(self._state, indices)).tolist()
            self._block = at, values  # at once: nodes that are threads share it
        return values[within]


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[list[torch.Generator]]:
    """torch's own stream, from which modules draw, begins at this seed and is afterwards where it was before.

    There is one stream for all threads, so one thread at a time has it."""
    streams = [torch.default_generator]
    if device is not None and device.type == "cuda":
        here = torch.cuda.current_device() if device.index is None else device.index
        streams.append(torch.cuda.default_generators[here])
    with _ONE_AT_A_TIME:
        before = [stream.get_state() for stream in streams]
        for stream in streams:
            stream.manual_seed(seed)
        try:
            yield streams
        finally:
            for stream, state in zip(streams, before, strict=True):
                stream.set_state(state)


@contextmanager
def all_seeded(seed: int) -> Iterator[None]:
    """NumPy's and Python's own streams too, for a person's own code: processes that call it must get the same numbers.

    A generator that such code makes of the operating system's randomness is not seen here.
    """
    with seeded(seed):
        before = random.getstate(), np.random.get_state()
        random.seed(seed)
        np.random.seed(seed % (1 << 32))
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
