"""One node's part of a checkpoint: a safetensors file whose header carries, as JSON, everything that is no tensor.

Any safetensors reader opens it. Loading executes nothing, and allocates no more than the file is long.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

FORMAT = 1
"""Raised whenever an older dsgt could misread a newer file."""
HEADER_LIMIT = 1 << 24
"""Bytes of JSON that a reader is willing to parse: a hundred thousand tensors."""

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class CheckpointWarning(UserWarning):
    """A checkpoint was not written, or a damaged one was passed over."""


class CheckpointError(ValueError):
    """A checkpoint cannot be used."""


class DamagedError(CheckpointError):
    """A file is truncated, altered, or no checkpoint at all."""

    def __init__(self, path: Path, reason: object) -> None:
        super().__init__(f"{path} is not a whole checkpoint: {reason}")


class DifferentError(CheckpointError):
    """A checkpoint is whole, but of another run."""


@dataclass(frozen=True)
class Part:
    """What one process saved."""

    k: int
    """How many rounds were done."""
    node: int | None
    nodes: int
    settings: Mapping[str, Any]
    """What the run was; a run with other settings is another run."""
    extra: Mapping[str, Any]
    """Whatever else its writer wants back."""
    tensors: Mapping[str, Tensor]


def write(path: Path, part: Part) -> None:
    """The part as a file that is either whole or not there, also when the power goes. Raises OSError."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in part.tensors.items()}
    for name, t in tensors.items():
        if t.dtype not in _NAMES:
            raise TypeError(f"{name} has dtype {t.dtype}, but a checkpoint holds {', '.join(map(str, _NAMES))}")
    about = {
        "format": FORMAT,
        "round": part.k,
        "node": part.node,
        "nodes": part.nodes,
        "settings": dict(part.settings),
        "extra": dict(part.extra),
    }
    text = json.dumps(about, sort_keys=True)
    header: dict[str, Any] = {"__metadata__": {"dsgt": text, "sha256": _digest(text, tensors)}}
    end = 0
    for name, t in _in_order(tensors):
        begin, end = end, end + t.numel() * t.element_size()
        header[name] = {"dtype": _NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [begin, end]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    if len(head) > HEADER_LIMIT:
        raise ValueError(
            f"what is saved beside the tensors takes {len(head)} bytes; at most {HEADER_LIMIT} are allowed"
        )
    with atomic(path) as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for _, t in _in_order(tensors):
            file.write(_raw(t).data)


def read(path: Path) -> Part:
    """What ``write`` wrote, or DamagedError; DifferentError where another format was written."""
    try:
        about, text, told, tensors = _contents(path)
    except Exception as error:  # safetensors, json, torch and the file system each have their own
        raise DamagedError(path, error) from error
    if about.get("format") != FORMAT:
        raise DifferentError(
            f"{path} has checkpoint format {about.get('format')!r}, but this version of dsgt reads format {FORMAT}: "
            "resume with the version that wrote it"
        )
    if _digest(text, tensors) != told:
        raise DamagedError(path, "its checksum does not match its contents")
    try:
        node = about["node"]
        part = Part(about["round"], node, about["nodes"], about["settings"], about["extra"], tensors)
        if not (_count(part.k) and _count(part.nodes) and (node is None or _count(node))):
            raise ValueError("round, node or nodes is not a count")
        if not (isinstance(part.settings, dict) and isinstance(part.extra, dict)):
            raise ValueError("settings or extra is not a table")
    except (KeyError, ValueError) as error:
        raise DamagedError(path, error) from error
    return part


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin with the prefix, by the rest of their names."""
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _contents(path: Path) -> tuple[dict[str, Any], str, str, dict[str, Tensor]]:
    if path.is_symlink() or not path.is_file():
        raise ValueError("it is not a regular file")  # a link could lead out of the folder
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > min(HEADER_LIMIT, path.stat().st_size):
        raise ValueError(f"its header claims {length} bytes")
    with safe_open(path, "pt") as file:  # checks that the tensors fill the file exactly
        metadata = file.metadata() or {}
        text, told = metadata["dsgt"], metadata["sha256"]
        about = json.loads(text)
        if not isinstance(about, dict):
            raise ValueError("its header is not a table")
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - it has no iterator
    return about, text, told, tensors


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _in_order(tensors: Mapping[str, Tensor]) -> list[tuple[str, Tensor]]:
    """Large numbers first, as safetensors does, so that every tensor is aligned."""
    return sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))


def _raw(t: Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    # a single number that was cut out of a larger tensor is contiguous whatever its stride, but no view of bytes
    return t.as_strided((t.numel(),), (1,)).view(torch.uint8).numpy()


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(text.encode())
    for name, t in _in_order(tensors):
        found.update(f"{name} {t.dtype} {tuple(t.shape)} ".encode())
        found.update(_raw(t).data)
    return found.hexdigest()


@contextmanager
def atomic(path: Path) -> Iterator[BinaryIO]:
    """A file that gets this name when it is whole; until then it has one where nobody could have put a link."""
    temporary = path.with_name(f"{path.name}.{token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    with suppress(OSError):  # the name too must survive; where folders cannot be synced, the file system decides
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
