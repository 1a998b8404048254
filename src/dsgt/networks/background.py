"""A background thread for messages, which runs while the node computes."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias

import torch
from torch import Tensor

from dsgt.threads import do_not_disturb

Task: TypeAlias = Callable[[], Tensor]
Tasks: TypeAlias = "SimpleQueue[tuple[Future[Tensor], Task] | None]"
"""None is the last."""

LINGERING = 5.0
"""Seconds an exiting process waits for tasks that have begun: enough for a message, not for a dead node."""


class Background:
    """A thread that runs one task after the other."""

    def __init__(self) -> None:
        self._tasks: Tasks = SimpleQueue()
        self._thread = Thread(
            target=_work, args=(self._tasks, torch.get_num_threads()), name="dsgt-background", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)  # a thread that is inside gloo, MPI or torch when they end would crash the process

    def begin(self, task: Task) -> Future[Tensor]:
        future: Future[Tensor] = Future()
        self._tasks.put((future, task))
        return future

    def close(self) -> None:
        """No more tasks will come; those that have begun are waited for, also where nobody wants their results."""
        self._tasks.put(None)
        self._thread.join(LINGERING)
        atexit.unregister(self.close)


def _work(tasks: Tasks, cores: int) -> None:
    torch.set_num_threads(cores)  # a new thread would use all of them
    do_not_disturb()
    with torch.no_grad():
        while (job := tasks.get()) is not None:
            future, task = job
            try:
                future.set_result(task())
            except BaseException as error:
                future.set_exception(error)
            del job, future, task  # what they hold is memory that others wait for
