"""A file of finished pieces of work, a JSON line each: what a comparison that was interrupted need not do again."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsgt.checkpoint.lock import Lock
from dsgt.checkpoint.part import FORMAT, CheckpointWarning, DifferentError, atomic

SIZE_LIMIT = 1 << 30
"""Bytes that a reader is willing to read."""


class Journal:
    """The first line says what the work is; each later one is a finished piece. A line cut off by a crash is redone."""

    def __init__(self, path: Path, settings: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self._lock = Lock(path.parent)  # for as long as this object lives
        self._lock.hold()
        self.about = json.loads(json.dumps({"format": FORMAT, "settings": dict(settings)}))
        self.finished: list[dict[str, Any]] = self._read() if resume and path.is_file() else []
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as file:
            file.write("".join(_line(piece) for piece in (self.about, *self.finished)).encode())

    def append(self, piece: Mapping[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(_line(piece))
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> list[dict[str, Any]]:
        if self.path.stat().st_size > SIZE_LIMIT:
            raise DifferentError(f"{self.path} is longer than {SIZE_LIMIT} bytes; it was not written here")
        lines = []
        for number, text in enumerate(self.path.read_text(errors="replace").splitlines(), start=1):
            try:
                lines.append(_piece(text))
            except (ValueError, RecursionError) as error:
                warnings.warn(f"line {number} of {self.path} is not whole ({error}); its work is done again",
                              CheckpointWarning, stacklevel=4)  # fmt: skip
        here = self.about["settings"]
        there = lines[0].get("settings") if lines else None
        if not isinstance(there, dict) or lines[0].get("format") != FORMAT:
            raise DifferentError(f"{self.path} does not begin with the settings of a comparison; use another folder")
        for key in sorted({*here, *there}):
            if here.get(key) != there.get(key):
                raise DifferentError(
                    f"{self.path} was begun with {key} = {there.get(key)}, but here it is {here.get(key)}; resume with "
                    "the same settings, or use another folder"
                )
        return lines[1:]


def _line(piece: Mapping[str, Any]) -> str:
    """With a checksum: also a digit that has changed on the disk is noticed."""
    return json.dumps({**piece, "checksum": _checksum(piece)}) + "\n"


def _piece(line: str) -> dict[str, Any]:
    piece = json.loads(line)
    if not isinstance(piece, dict):
        raise ValueError("it is not a table")
    if piece.pop("checksum", "") != _checksum(piece):
        raise ValueError("its checksum is wrong")
    return piece


def _checksum(piece: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(piece)).encode()).hexdigest()[:16]
