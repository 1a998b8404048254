"""What a round of every method sends, and how long that takes: known before any data are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any

import torch

from dsgt import topologies
from dsgt.algorithms import ALGORITHMS, COMPOSITIONS
from dsgt.compression import BFloat16, Compressed, Compressor, Float16, LowRank, Quantise, RandK, Sign, TopK
from dsgt.core import Algorithm, Matrix, Pending
from dsgt.networks.dense import Dense
from dsgt.topologies.changing import Fixed
from dsgt.topologies.needs import complaints

ELEMENT = 4
"""Bytes of a number: what is sent is float32, also of models in half precision."""


@dataclass(frozen=True)
class Round:
    """What methods that send alike send in a round."""

    methods: tuple[str, ...]
    compressor: str
    """Empty where vectors are sent as they are."""
    megabytes: float
    """To each neighbour."""
    seconds: float


def rounds_of_all(W: Matrix, parameters: int, *, latency: float, bandwidth: float, compute: float = 0.0) -> list[Round]:
    """Every method that may use W, with every compressor that it takes, the quickest first.

    A node's link sends one message after the other, ``bandwidth`` bytes a second; a message arrives ``latency`` seconds
    later. ``compute`` is the seconds of a node's gradient, behind which some messages travel.
    """
    degree, nodes = topologies.describe(W).max_degree, int(W.shape[0])
    found: dict[tuple[str, float, float], list[str]] = {}
    for name, algorithm, compressor in _usable(W, parameters):
        size, neighbours, hops = algorithm.message_bytes(parameters, ELEMENT), degree, algorithm.sends
        if algorithm.needs.average:  # by a ring: everybody to one, 2 (n - 1) parts of the vector
            size, neighbours, hops = size * 2 * (nodes - 1) / nodes, 1, 2 * (nodes - 1)
        share = min(1.0, free_messages(algorithm) / algorithm.sends)
        sending = neighbours * size / bandwidth + hops * latency
        seconds = max(compute, share * sending) + (1 - share) * sending
        found.setdefault((compressor, size / 1e6, seconds), []).append(name)
    made = [Round(tuple(names), c, megabytes, s) for (c, megabytes, s), names in found.items()]
    return sorted(made, key=lambda r: (r.seconds, r.megabytes))


def free_messages(algorithm: Algorithm[Any]) -> int:
    """How many a round travel while the next gradient is computed."""
    state = algorithm.init(torch.zeros(1, 1), Dense([[1.0]]).at(0))
    return sum(isinstance(f, Pending | tuple) for f in state)


def compressors(m: int) -> list[Compressor]:
    """Those that are told of. Of a low rank only for a model that is one square matrix: it depends on the shapes."""
    side = isqrt(m)
    return [
        TopK(0.001),
        TopK(0.01),
        TopK(0.1),
        RandK(0.01),
        Sign(),
        *(Quantise(bits) for bits in (2, 4, 8)),
        LowRank(2, shapes=((side, side), (m - side * side,))),
        Float16(),
        BFloat16(),
    ]


def _usable(W: Matrix, m: int) -> Iterator[tuple[str, Algorithm[Any], str]]:
    weights = Fixed(W)
    for name, kind in (ALGORITHMS | COMPOSITIONS).items():
        algorithm = kind()
        if not algorithm.needs.average and complaints(algorithm.needs, weights):
            continue
        if not isinstance(algorithm, Compressed):
            bits = "its own" if kind.message_bytes is not Algorithm.message_bytes else ""
            yield name, algorithm, bits
            continue
        for compress in compressors(m):
            if compress.unbiased or not algorithm.needs_unbiased:
                yield name, replace(algorithm, compress=compress), str(compress)
