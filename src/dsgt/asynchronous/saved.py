"""A node's own checkpoint. Nobody else need know of it: see ``Node.saved`` for why that suffices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dsgt.asynchronous.node import Node
from dsgt.checkpoint import part
from dsgt.checkpoint.part import DifferentError, Part


def path_of(folder: Path, node: int, nodes: int) -> Path:
    return folder / f"asynchronous-node-{node}-of-{nodes}.safetensors"


def save(path: Path, node: Node[Any], *, nodes: int, job: str, phase: int) -> None:
    """job: what the run is, in words; another one's checkpoint is of no use."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part.write(path, Part(node.mail.k, node.i, nodes, {"job": job}, {"phase": phase}, node.saved()))


def load(path: Path, node: Node[Any], *, nodes: int, job: str) -> int:
    """Bring the node back, and give the phase that it was in."""
    found = part.read(path)
    for key, there, here in (
        ("node", found.node, node.i),
        ("nodes", found.nodes, nodes),
        ("job", found.settings.get("job"), job),
    ):
        if there != here:
            raise DifferentError(
                f"{path} was saved with {key} = {there}, but here it is {here}; resume with the same settings, or use "
                "another folder"
            )
    node.restore(found.tensors)
    return int(found.extra["phase"])
