"""What all nodes must have in common before they train, and a model that they all start from."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping

import torch
from torch import Tensor

from dsgt._version import __version__
from dsgt.core import Network
from dsgt.networks.agreement import any_node, gather_numbers, gather_text
from dsgt.networks.inside import Processes

CHUNK = 1 << 18
"""Numbers of a model that every node is told at once."""
STARTS = ("node 0", "mean", "own")
log = logging.getLogger("dsgt")


def versions() -> dict[str, str]:
    return {"dsgt": __version__, "torch": torch.__version__}


def agree(network: Network, facts: Mapping[str, object]) -> None:
    """All nodes must say the same; else everyone raises the same error, which names the first difference."""
    texts = {key: str(value) for key, value in facts.items()}
    prints = gather_numbers(network, [digest(f"{key}={text}") for key, text in texts.items()])
    for (key, text), column in zip(texts.items(), prints.T, strict=True):
        different = (column != column[0]).nonzero().flatten().tolist()
        if different:
            said = gather_text(network, text)
            raise ValueError(
                f"the nodes do not run the same thing: {key} is {said[0]} at {_name(network, 0)}, but "
                f"{said[different[0]]} at {_name(network, different[0])}; start every node with the same script and "
                "arguments"
            )


def common_start(network: Network, x: Tensor, start: str) -> None:
    """Make x the model that this node starts from: that of node 0, the mean of all, or its own."""
    if start not in STARTS:
        raise ValueError(f"start is {start!r}; expected one of {', '.join(map(repr, STARTS))}")
    if network.nodes == 1 or (start == "own" and not isinstance(network, Processes)):
        return
    differed = False
    for part in x.split(CHUNK):
        told = _told(network, part, start)
        differed |= not torch.equal(told, part)
        part.copy_(told)
    if any_node(network, differed) and network.node == 0:
        log.warning("the nodes' models differed at the start: all begin with %s", _WHOSE[start])


_WHOSE = {
    "node 0": "node 0's model (start='own' keeps them)",
    "mean": "the mean of the nodes' models (start='own' keeps them)",
    "own": "that of their node's first process",
}


def same_inside(processes: Processes, what: str, value: float) -> None:
    """The processes of each node must have the same number."""
    rows = gather_numbers(processes, [value]).reshape(-1, processes.size)
    for node, row in enumerate(rows.tolist()):
        if len(set(row)) > 1:
            raise ValueError(f"the processes of node {node} must have the same {what}, but they have {row}")


def _name(network: Network, number: int) -> str:
    return network.name(number) if isinstance(network, Processes) else f"node {number}"


def _told(network: Network, part: Tensor, start: str) -> Tensor:
    if start == "own" and isinstance(network, Processes):
        return network.of_first(part)
    if start == "mean":
        return network.mean(part.double()).to(part.dtype)
    return network.gather(part)[0]


def digest(text: str) -> float:
    """Six bytes, which are exact in a float64."""
    return float(int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big"))
