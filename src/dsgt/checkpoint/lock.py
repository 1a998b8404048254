"""One job in a folder at a time: a lock that says who holds it, and that the system takes from a process that ends.

The processes of one job share their folder; node 0 holds it for all of them.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import threading
import time
import warnings
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dsgt.checkpoint.part import CheckpointError, CheckpointWarning
from dsgt.core import Network
from dsgt.networks.agreement import gather_text

if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, flock

NAME = "lock"
PATIENCE = 3.0
"""Seconds that a job waits for the one before: whoever gives a command again may be faster than what he has stopped."""


class InUseError(CheckpointError):
    """Another job is at work in this folder."""


@dataclass
class _Held:
    descriptor: int
    times: int = 1


_held: dict[Path, _Held] = {}
"""What this process holds, and how many of its objects share it."""
_mutex = threading.Lock()


def _forget() -> None:
    """A process that was forked, as data loaders do, must not keep its parent's locks when that is killed."""
    global _mutex
    _mutex = threading.Lock()  # another thread of the parent may have had the old one
    for mine in _held.values():
        os.close(mine.descriptor)
    _held.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)


class Lock:
    """The right to write into a folder, from ``hold`` until ``close`` or the end of the object or the process."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / NAME
        self._end: weakref.finalize[..., Lock] | None = None
        self._asked = False

    def hold(self, network: Network | None = None) -> None:
        """Have it, or InUseError at every node; all nodes must call it at once. Who has it already need not ask."""
        if self._asked:
            return
        trouble = ""
        try:
            if network is None or not network.node:
                path = self.path.absolute()
                with _mutex:
                    _take(path)
                self._end = weakref.finalize(self, _let_go, path)
        except InUseError as error:
            trouble = str(error)
        for said in [trouble] if network is None else gather_text(network, trouble):
            if said:
                raise InUseError(said)
        self._asked = True

    def close(self) -> None:
        self._asked = False
        if self._end is not None:
            self._end()


def _take(path: Path) -> None:
    mine = _held.get(path)
    if mine is not None and _is_at(path, mine.descriptor):
        mine.times += 1
        return
    deadline = time.monotonic() + PATIENCE
    while (descriptor := _opened(path)) is not None:
        if _locked(descriptor) and _is_at(path, descriptor):  # else its holder has just released it
            _sign(path, descriptor)
            _held[path] = _Held(descriptor)
            return
        holder = _holder(descriptor)
        os.close(descriptor)
        if time.monotonic() > deadline:
            raise InUseError(
                f"{path.parent} is in use by {holder}: two jobs in one folder would spoil each other's checkpoints; "
                "give this one another folder, or wait until that one has ended"
            )
        time.sleep(0.05)


def _let_go(path: Path) -> None:
    with _mutex:
        mine = _held.get(path)
        if mine is None:
            return
        mine.times -= 1
        if mine.times:
            return
        del _held[path]
        if _is_at(path, mine.descriptor):
            path.unlink()
        os.close(mine.descriptor)


def _opened(path: Path) -> int | None:
    """None where nothing can be written, which the first save will tell."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError:
        return None


def _locked(descriptor: int) -> bool:
    """True also where the file system knows no locks: then there is no telling."""
    if sys.platform == "win32":
        return True
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)  # not lockf: it ends when anybody here, a backup say, closes the file
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN)
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False))
    except OSError:
        return False


def _sign(path: Path, descriptor: int) -> None:
    """Write who holds it. A signature of another machine was left by a crash, or its locks are not seen here."""
    before = _read(descriptor)
    if before and before.get("host") != socket.gethostname():
        warnings.warn(
            f"{path.parent} was last used by {_holder(descriptor)}, which did not end in order; if it still runs, "
            "stop one of the two",
            CheckpointWarning,
            stacklevel=5,
        )
    about = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    with suppress(OSError):  # a full disk is told by the first save
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(about).encode(), 0)


def _holder(descriptor: int) -> str:
    about = _read(descriptor)
    return f"process {about.get('pid')} on {about.get('host')} since {about.get('since')}" if about else "another job"


def _read(descriptor: int) -> dict[str, object]:
    try:
        about = json.loads(os.pread(descriptor, 1000, 0))
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}
