"""What the processes of a network tell each other besides models. All of them must call at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import torch
from torch import Tensor

from dsgt.core import Network

T = TypeVar("T")
LONGEST_TEXT = 1000
"""Bytes."""


def gather_numbers(network: Network, numbers: Sequence[float]) -> Tensor:
    """The numbers that every process tells, one row each."""
    v = torch.tensor([float(x) for x in numbers], dtype=torch.float64)
    return v[None] if network.node is None else network.gather(v)


def any_node(network: Network, here: bool) -> bool:
    """Whether something holds at any node."""
    return bool(gather_numbers(network, [here]).any())


def gather_text(network: Network, text: str) -> list[str]:
    """What every process says, cut where it is long."""
    raw = text.encode()[:LONGEST_TEXT]
    rows = gather_numbers(network, [*raw, *[0] * (LONGEST_TEXT - len(raw))]).to(torch.uint8)
    return [bytes(row.tolist()).rstrip(b"\0").decode(errors="ignore") for row in rows]


def together(network: Network, act: Callable[[], T]) -> T:
    """What ``act`` gives here; a ValueError, the same at every node, where it cannot be done at one of them."""
    trouble, found = "", None
    try:
        found = act()
    except (ValueError, OSError) as error:
        trouble = str(error) or type(error).__name__
    for node, said in enumerate(gather_text(network, trouble)):
        if said:
            raise ValueError(said if network.node is None else f"node {node}: {said}")
    return cast("T", found)
