"""Fetching a data set: whole and checked, or nothing at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

PIECE = 1 << 18
SILENT_AFTER = 60.0
"""Seconds without an answer after which a server counts as silent."""


def download_archive(url: str, md5: str, folder: Path) -> None:
    """Download the .tar.gz at url, compare its checksum, unpack the member ``folder.name`` and move it into place.

    Everything happens in a temporary directory beside it, so an interruption leaves nothing behind.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as tmp:
        archive = Path(tmp) / "archive.tar.gz"
        _fetch(url, md5, archive, folder.parent)
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(tmp, filter="data")
        except (tarfile.TarError, EOFError, OSError) as error:
            raise ValueError(f"{url} cannot be unpacked ({error}); try again") from error
        unpacked = Path(tmp) / folder.name
        if not unpacked.is_dir():
            raise ValueError(f"{url} holds no folder {folder.name}; is it the right archive?")
        os.replace(unpacked, folder)


def download_files(urls: Mapping[str, str], folder: Path) -> None:
    """Download the files at these addresses, compare their checksums, and move all of them into place together."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as tmp:
        whole = Path(tmp) / folder.name
        whole.mkdir()
        for url, md5 in urls.items():
            _fetch(url, md5, whole / url.rpartition("/")[2], folder.parent)
        os.replace(whole, folder)


def _fetch(url: str, md5: str, target: Path, parent: Path) -> None:
    """Save url as target, which must have this checksum; a terminal is told how far it is."""
    digest = hashlib.md5(usedforsecurity=False)  # what the authors publish
    try:
        with urllib.request.urlopen(url, timeout=SILENT_AFTER) as answer, target.open("wb") as file:
            length = int(answer.headers.get("Content-Length", 0))
            free = shutil.disk_usage(parent).free
            if 3 * length > free:
                raise ValueError(f"{parent} has {free >> 20} MB left, but the download needs {3 * length >> 20} MB")
            got = 0
            while piece := answer.read(PIECE):
                file.write(piece)
                digest.update(piece)
                got += len(piece)
                _tell(url, got, length)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise ConnectionError(
            f"{url} cannot be reached ({error}). Either try again with a network, or download it on another machine "
            f"and put it, unpacked, into {parent}"
        ) from error
    if got < length:
        raise ConnectionError(f"{url} ended after {got} of {length} bytes; try again")
    if (found := digest.hexdigest()) != md5:
        raise ValueError(
            f"{url} has the checksum {found}, but {md5} is published: the download was damaged or the file has "
            "changed; try again, and do not use it if it happens twice"
        )


def _tell(url: str, got: int, length: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if got == length else ""
        print(f"\r{url.rsplit('/', 1)[-1]}: {got >> 20} of {length >> 20} MB", end=end, file=sys.stderr, flush=True)
