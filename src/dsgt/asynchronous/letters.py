"""A letter as bytes, and back: 64 bytes of head, then what is said, given and asked.

A receiver knows from its own method how long each part is and of which dtype. Whatever else comes is refused, never
guessed at. Loading executes nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.asynchronous.mail import Letter, Links
from dsgt.asynchronous.node import Node

MAGIC = b"dsg1"
_HEAD = struct.Struct("<4s8siBBBB3iqqqq")
_DTYPES = (torch.float64, torch.float32)
assert _HEAD.size == 64


class RefusedError(ValueError):
    """Bytes that are no letter of this job."""


class Envelope(NamedTuple):
    """A letter, and what two runtimes tell each other beside it."""

    job: bytes
    """A print of the method, the weights and the settings: who has another one takes part in another job."""
    letter: Letter
    """Its number is 0 where the sender has nothing to tell."""
    phase: int
    """How far the sender is with beginning and ending."""
    seen: int
    """The phase of the receiver that the sender knows of."""
    heard: int
    """The number of the receiver's newest letter that the sender has heard."""


class Part(NamedTuple):
    """What the tensor of a letter must be."""

    length: int
    dtype: torch.dtype


@dataclass(frozen=True)
class Form:
    """Of the letters of one method for models of one length: what is said, given and asked; None: nothing ever."""

    parts: tuple[Part | None, Part | None, Part | None]

    @classmethod
    def of(cls, algorithm: AsyncAlgorithm[Any], like: Tensor) -> Form:
        """As two nodes write them who wake and hear each other: the method itself says what it sends."""
        zero = torch.zeros_like(like)
        pair = [Node(algorithm, _linked(i), zero, lambda k: 0.0) for i in (0, 1)]
        found: list[Part | None] = [None, None, None]
        for i in (0, 1, 0, 1):
            pair[i].wake(zero)
            letter = pair[i].mail.letter(1 - i)
            pair[1 - i].hear(letter)
            for at, tensor in enumerate(_tensors(letter)):
                if tensor is not None:
                    found[at] = Part(tensor.numel(), tensor.dtype)
        for part in found:
            if part is not None and part.dtype not in _DTYPES:
                raise ValueError(
                    f"the model is {part.dtype}; letters carry float64 and float32: convert it with .float()"
                )
        said, given, asked = found
        return cls((said, given, asked))

    @property
    def longest(self) -> int:
        """Bytes of the longest letter."""
        return _HEAD.size + sum(_room(part.length * part.dtype.itemsize) for part in self.parts if part is not None)

    def encode(self, envelope: Envelope) -> bytearray:
        letter = envelope.letter
        tensors = _tensors(letter)
        codes = sum(_DTYPES.index(t.dtype) << at for at, t in enumerate(tensors) if t is not None)
        data = bytearray(_HEAD.size + sum(_room(t.nbytes) for t in tensors if t is not None))
        _HEAD.pack_into(
            data, 0, MAGIC, envelope.job, letter.sender, envelope.phase, envelope.seen, codes, 0,
            *(-1 if t is None else t.numel() for t in tensors),
            letter.number, letter.asked, letter.answered, envelope.heard,
        )  # fmt: skip
        at = _HEAD.size
        flat = np.frombuffer(data, np.uint8)
        for t in tensors:
            if t is not None:
                flat[at : at + t.nbytes] = t.detach().contiguous().view(-1).view(torch.uint8).numpy()
                at += _room(t.nbytes)
        return data

    def decode(self, data: bytearray) -> Envelope:
        """The tensors are views of ``data``. RefusedError where it is no letter of this form."""
        if len(data) < _HEAD.size or data[:4] != MAGIC:
            raise RefusedError("no letter")
        _, job, sender, phase, seen, codes, _, *numbers = _HEAD.unpack_from(data)
        lengths, (number, asked, answered, heard) = numbers[:3], numbers[3:]
        tensors: list[Tensor | None] = []
        at = _HEAD.size
        for i, (length, part) in enumerate(zip(lengths, self.parts, strict=True)):
            if length == -1:
                tensors.append(None)
                continue
            dtype = _DTYPES[codes >> i & 1]
            if part is None or length != part.length:
                raise RefusedError("wrong length")
            if dtype != part.dtype:
                raise RefusedError("wrong dtype")
            begin, at = at, at + _room(length * dtype.itemsize)
            if at > len(data):
                raise RefusedError("wrong length")
            tensors.append(torch.frombuffer(data, dtype=dtype, count=length, offset=begin))
        if at != len(data):
            raise RefusedError("wrong length")
        if min(number, asked, answered, heard) < 0 or (number == 0 and at > _HEAD.size):
            raise RefusedError("wrong numbers")
        said, total, question = tensors
        return Envelope(job, Letter(sender, number, said, total, question, asked, answered), phase, seen, heard)


def _room(nbytes: int) -> int:
    """That many bytes, and as many more as the next tensor needs to begin where float64 may."""
    return nbytes + -nbytes % 8


def _tensors(letter: Letter) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    return letter.said, letter.total, letter.question


def _linked(i: int) -> Links:
    """Node i of two that hear and tell each other."""
    other = 1 - i
    return Links(
        i, own=0.5, hears={other: 0.5}, keeps=0.5, gives={other: 0.5}, heard_by=frozenset([other]), tells=(other,),
        listens=(other,),
    )  # fmt: skip
