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
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def _scramble(z: Tensor) -> Tensor:
    z = (z ^ _shift(z, 30)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    z = (z ^ _shift(z, 27)) * -7723592293110705685  # 0x94D049BB133111EB
    return z ^ _shift(z, 31)


def bits(seed: int, *coordinates: Tensor | int) -> Tensor:
    """63 random bits, as int64 >= 0, for every point of the broadcast coordinates."""
    z = torch.tensor(seed, dtype=torch.int64)
    for c in coordinates:
        c = torch.as_tensor(c, dtype=torch.int64)
        z = _scramble((z.to(c.device) + c + 1) * _GOLDEN)
    return _shift(_scramble(z + _GOLDEN), 1)


def uniform(seed: int, *coordinates: Tensor | int) -> Tensor:
    """Uniform on [0, 1), float64."""
    return (bits(seed, *coordinates) >> 10).double() * 2.0**-53


def integers(high: Tensor | int, seed: int, *coordinates: Tensor | int) -> Tensor:
    """Uniform on 0 ... high - 1; high may differ from point to point. The bias, high / 2^63, cannot be measured."""
    return bits(seed, *coordinates) % high
