"""Random numbers without state: a number is a function of its seed and its coordinates.

What node i draws in round k depends on (seed, i, k) only. So the simulator draws for all nodes at once, a real node
draws its own numbers and they are the same, evaluating disturbs nothing, and resuming needs no generator's state.
The function is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), applied once per coordinate.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit number: torch multiplies those modulo 2^64


def _shift(z: Tensor, bits: int) -> Tensor:
    """z >> bits, filling with zeros: torch has no unsigned 64-bit shift."""
    return (z >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _scramble_(z: Tensor) -> Tensor:
    """In place, because these passes over a fresh tensor are what drawing costs."""
    z.bitwise_xor_(_shift(z, 30)).mul_(-4658895280553007687)  # 0xBF58476D1CE4E5B9
    z.bitwise_xor_(_shift(z, 27)).mul_(-7723592293110705685)  # 0x94D049BB133111EB
    return z.bitwise_xor_(_shift(z, 31))


def absorb(z: Tensor | int, *coordinates: Tensor | int) -> Tensor:
    """The state of the hash after these coordinates; ``z`` is a seed, or the state after earlier coordinates.

    A seed is scrambled before the first coordinate is added: otherwise node 1 of seed 0 would be node 0 of seed 1.
    """
    if isinstance(z, int):
        z = _scramble_(torch.tensor([z], dtype=torch.int64).add_(1).mul_(_GOLDEN))[0]
    for c in coordinates:
        c = torch.as_tensor(c, dtype=torch.int64)
        z = _scramble_((z.to(c.device) + c).add_(1).mul_(_GOLDEN))
    return z


def bits_of(z: Tensor) -> Tensor:
    """63 random bits, as int64 >= 0, from states of the hash: the last coordinate has been scrambled already."""
    return _shift(z, 1)


def bits(seed: int, *coordinates: Tensor | int) -> Tensor:
    """63 random bits, as int64 >= 0, for every point of the broadcast coordinates."""
    return bits_of(absorb(seed, *coordinates))


def uniform_of(z: Tensor) -> Tensor:
    """Uniform on [0, 1), float64, from states of the hash.

    52 bits and not 53, so that ``uniform * high`` stays below ``high`` after rounding.
    """
    return _shift(z, 12).double().mul_(2.0**-52)


def uniform(seed: int, *coordinates: Tensor | int) -> Tensor:
    """Uniform on [0, 1), float64, for every point of the broadcast coordinates."""
    return uniform_of(absorb(seed, *coordinates))


def integers_of(high: Tensor | int, z: Tensor) -> Tensor:
    """Uniform on 0 ... high - 1, from states of the hash; high may differ from point to point.

    A product, because a 64-bit remainder costs ten times as much. The bias, high / 2^52, cannot be measured.
    """
    return (uniform_of(z) * high).long()


def integers(high: Tensor | int, seed: int, *coordinates: Tensor | int) -> Tensor:
    """Uniform on 0 ... high - 1, for every point of the broadcast coordinates."""
    return integers_of(high, absorb(seed, *coordinates))
