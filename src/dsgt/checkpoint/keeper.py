"""The checkpoints of one run: where it begins, when it saves, and how it stops when it is asked to."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol

import torch
from torch import Tensor

from dsgt.checkpoint.folder import SaveError, in_use, load, save
from dsgt.checkpoint.lock import Lock
from dsgt.checkpoint.part import CheckpointError, CheckpointWarning, DifferentError, under
from dsgt.checkpoint.signals import Requests
from dsgt.core import Network, S, tensors, with_tensors
from dsgt.layout import Layout
from dsgt.networks.agreement import any_node

Row = dict[str, float]


@dataclass(frozen=True)
class Folder:
    """Where checkpoints go, how many stay, and whether a run stops when one cannot be written."""

    path: str | Path
    keep: int = 3
    strict: bool = False


@dataclass(frozen=True)
class Progress(Generic[S]):
    """How far a run has come."""

    k: int
    state: S
    rows: list[Row]
    seconds: float
    model: Tensor | None = None
    """What a user takes home, where that may be something else than the state's x."""


class Memory(Protocol):
    """What a run must hold besides its state."""

    def progress(self) -> dict[str, Tensor]: ...

    def restore(self, progress: dict[str, Tensor]) -> None: ...


class Keeper:
    """Saves a run every so many rounds, at its end and when it is asked to stop; without a folder it does nothing."""

    def __init__(self, folder: str | Path | Folder | None, *, every: int | None, rounds: int, network: Network) -> None:
        if every is not None and (folder is None or every < 1):
            raise ValueError(f"checkpoint_every is {every} and checkpoint_dir {folder}; give a folder, and rounds >= 1")
        self.folder = folder if isinstance(folder, Folder) or folder is None else Folder(folder)
        self.every, self.rounds, self.network = every or max(1, rounds // 10), rounds, network
        self.last: int | None = None
        """The round of the newest checkpoint."""
        self.is_due = False
        """What ``due`` answered last."""
        self._memory: Memory | None = None
        self._settings: Mapping[str, Any] = {}
        self._layout: Mapping[str, Any] = {}
        self._requests = Requests(network)
        self._lock = None if self.folder is None else Lock(self.folder.path)

    def begin(
        self,
        blank: S,
        *,
        memory: Memory,
        settings: Callable[[], Mapping[str, Any]],
        layout: Callable[[], Layout],
        columns: Sequence[str],
        resume: bool,
    ) -> Progress[S]:
        """The newest checkpoint where there is one to resume, else the beginning; ``blank`` is the initial state."""
        beginning, self._memory = Progress(0, blank, [], 0.0), memory
        if self.folder is None or self._lock is None:
            if resume:
                raise ValueError("resume is True, but there is no checkpoint_dir to resume from; give the run's folder")
            return beginning
        self._lock.hold(self.network)
        try:
            return self._begun(beginning, settings=settings, layout=layout, columns=columns, resume=resume)
        except BaseException:
            self._lock.close()
            raise

    def _begun(
        self,
        beginning: Progress[S],
        *,
        settings: Callable[[], Mapping[str, Any]],
        layout: Callable[[], Layout],
        columns: Sequence[str],
        resume: bool,
    ) -> Progress[S]:
        assert self.folder is not None
        assert self._memory is not None
        self._layout = layout().as_json()
        self._columns = ("round", *columns)
        self._settings = {**settings(), "metrics": ", ".join(columns)}
        if not resume:
            if any_node(self.network, in_use(self.folder.path)):
                raise CheckpointError(
                    f"{self.folder.path} holds checkpoints of an earlier run: go on from them with resume=True, or "
                    "--resume, or use another folder"
                )
            return beginning
        part = load(self.folder.path, network=self.network, settings=self._settings)
        if part is None:
            return beginning
        if part.k > self.rounds:
            raise DifferentError(
                f"{self.folder.path} holds a checkpoint of round {part.k}, but rounds is {self.rounds}; ask for at "
                f"least {part.k} rounds, or use another folder"
            )
        template = tensors(beginning.state)  # waits for its messages, if it has sent any
        values, memory = under("state.", part.tensors), under("memory.", part.tensors)
        self._check_shapes(values, template)
        self._check_shapes(memory, self._memory.progress())
        self._memory.restore(memory)
        self.network.restore(under("network.", part.tensors))
        self.last = part.k
        table = part.tensors["rows"].tolist()
        rows: list[Row] = [{"round": int(k)} | dict(zip(columns, row, strict=True)) for k, *row in table]
        values = {name: t.to(template[name].device) for name, t in values.items()}
        return Progress(part.k, with_tensors(beginning.state, values), rows, float(part.extra["seconds"]))

    def _check_shapes(self, saved: Mapping[str, Tensor], template: Mapping[str, Tensor]) -> None:
        assert self.folder is not None
        for name in sorted({*template, *saved}):
            there, here = (tuple(t[name].shape) if name in t else None for t in (saved, template))
            if there != here:
                raise DifferentError(f"{self.folder.path} holds {name} with shape {there}, but here it is {here}")

    def due(self, k: int) -> bool:
        """Whether to save after round k. On real nodes all must ask at once."""
        self.is_due = self.folder is not None and k != self.last and self._wants(k)
        return self.is_due

    def _wants(self, k: int) -> bool:
        return (k > 0 and k % self.every == 0) or k == self.rounds or self._requests.to_stop(k)

    def save(self, progress: Progress[Any]) -> None:
        """Save, unless the state is one to which nobody wants to return; then stop, if that was asked for."""
        diverged = not all(t.isfinite().all() for t in tensors(progress.state).values())
        if not any_node(self.network, diverged):
            self._write(progress)
        if self._requests.to_stop(progress.k):
            raise self._requests.stop(f"round {progress.k} of {self.rounds}", self.where())

    def _write(self, progress: Progress[Any]) -> None:
        assert self.folder is not None
        assert self._memory is not None
        columns = [[row.get(name, math.nan) for name in self._columns] for row in progress.rows]
        content = {f"state.{name}": t for name, t in tensors(progress.state).items()}
        content |= {f"memory.{name}": t for name, t in self._memory.progress().items()}
        content |= {f"network.{name}": t for name, t in self.network.progress().items()}
        if progress.model is not None and progress.model is not progress.state[0]:
            content["output"] = progress.model
        content["rows"] = torch.tensor(columns, dtype=torch.float64)
        try:
            save(
                self.folder.path,
                content,
                k=progress.k,
                network=self.network,
                settings=self._settings,
                extra={"seconds": progress.seconds, "layout": self._layout},
                keep=self.folder.keep,
            )
            self.last = progress.k
        except SaveError as error:
            if self.folder.strict:
                raise
            warnings.warn(f"{error}; the run goes on, and {self.where()}", CheckpointWarning, stacklevel=4)

    def where(self) -> str:
        """Where the last good checkpoint is, and how to use it."""
        if self.folder is None:
            return ""
        if self.last is None:
            return "no checkpoint has been saved"
        return (
            f"the last good checkpoint is of round {self.last}, in {self.folder.path}; go on from it with resume=True, "
            "or --resume"
        )

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGINT and SIGTERM ask the run to save and stop; without a folder they do what they always do."""
        if self._lock is None:
            yield
            return
        try:
            with self._requests.listening():
                yield
        finally:
            self._lock.close()
