"""What the processes of a network tell each other besides models. All of them must call at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dsgt.core import Network

LONGEST = 1000
"""Bytes of a message in words."""


def everyone(network: Network, numbers: Sequence[float]) -> Tensor:
    """The numbers that every process tells, one row each."""
    v = torch.tensor([float(x) for x in numbers], dtype=torch.float64)
    return v[None] if network.node is None else network.gather(v)


def anywhere(network: Network, here: bool) -> bool:
    """Whether something holds at any node."""
    return bool(everyone(network, [here]).any())


def words(network: Network, text: str) -> list[str]:
    """What every process says, cut where it is long."""
    raw = text.encode()[:LONGEST]
    rows = everyone(network, [*raw, *[0] * (LONGEST - len(raw))]).to(torch.uint8)
    return [bytes(row.tolist()).rstrip(b"\0").decode(errors="ignore") for row in rows]
