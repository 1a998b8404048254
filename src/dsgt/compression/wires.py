"""Wires: several tensors as one row of bytes, and whole numbers of a few bits each as bytes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dsgt.core import WireError


def joined(*parts: Tensor) -> Tensor:
    """The bytes of the parts, one after the other along the last axis."""
    raw = [part.contiguous().view(torch.uint8) for part in parts]
    return raw[0] if len(raw) == 1 else torch.cat(raw, dim=-1)


def cut(wire: Tensor, start: int, count: int, dtype: torch.dtype) -> Tensor:
    """So many numbers of a dtype that begin at this byte."""
    part = wire[..., start : start + count * dtype.itemsize]
    if part.ndim > 1 or part.storage_offset() % dtype.itemsize:  # numbers must begin where their size divides
        part = part.clone(memory_format=torch.contiguous_format)
    return part.view(dtype)


def check_length(wire: Tensor, expected: int) -> None:
    if wire.dtype != torch.uint8 or wire.shape[-1] != expected:
        raise WireError(f"a wire of {wire.shape[-1]} {wire.dtype} came; expected {expected} bytes")


def finite(numbers: Tensor) -> Tensor:
    """The same numbers; a ``WireError`` where one of them is not finite."""
    # the sum is the cheaper one to ask; it may also overflow
    if not (math.isfinite(float(numbers.sum())) or bool(torch.isfinite(numbers).all())):
        raise WireError("the numbers of a wire are not finite")
    return numbers


def squeezed(codes: Tensor, bits: int) -> Tensor:
    """Codes below 2^bits as bytes. The first of 8/bits equal parts of them fills the lowest bits of all bytes, the next
    one the next bits: every pass runs along memory."""
    if bits == 8:
        return codes
    parts = torch.nn.functional.pad(codes, (0, -codes.shape[-1] % (8 // bits))).chunk(8 // bits, dim=-1)
    wire = parts[0].clone()
    for i, part in enumerate(parts[1:], start=1):
        wire |= part << (bits * i)
    return wire


def stretched(wire: Tensor, bits: int, m: int, out: Tensor) -> Tensor:
    """The inverse of ``squeezed``: m codes, as numbers of ``out``."""
    length = wire.shape[-1]
    for i in range(8 // bits):
        into = out[..., i * length : min((i + 1) * length, m)]
        codes = wire[..., : into.shape[-1]] >> (bits * i) if i else wire[..., : into.shape[-1]]
        into.copy_(codes & (2**bits - 1) if bits < 8 and i + 1 < 8 // bits else codes)
    return out


def squeezed_length(m: int, bits: int) -> int:
    """Bytes that m codes take."""
    return -(-m // (8 // bits))
