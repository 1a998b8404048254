"""Independent tasks over worker processes."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, TypeVar

from dsgt.late import load

Task = TypeVar("Task")
Found = TypeVar("Found")

POLL_SECONDS = 0.1
"""Seconds between two looks at what happens meanwhile."""


class _Worker(SpawnProcess):
    """A process that does not import the script, or the notebook, which started it.

    Python would run a script again in every worker, up to the line that starts the workers, unless it has a guard.
    Nothing of it is known there: a task must not need its classes and functions, or bring them along.
    """

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            return SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = main


class _Context(SpawnContext):
    """A fork would inherit torch's threads in an unknown state."""

    Process = _Worker


def queue() -> Any:
    """A queue to give to workers."""
    return _Context().SimpleQueue()


def run_tasks(
    act: Callable[[Task], Found],
    tasks: Sequence[Task],
    workers: int,
    *,
    prepare: Callable[..., None],
    given: tuple[Any, ...] = (),
    meanwhile: Callable[[], None] = lambda: None,
    more: Callable[[Task, Found], Sequence[Task]] = lambda task, found: (),
) -> Iterator[tuple[Task, Found]]:
    """Each task with what ``act`` found, in the order in which they finish.

    ``prepare(*given)`` is called once in every worker, ``meanwhile`` here, time and again; ``more`` gives the tasks
    that follow from a finished one. A worker leaves Ctrl-C to its parent; an interruption or an error ends the workers
    at once, and loses only what they were working on.
    """
    pool = ProcessPoolExecutor(
        min(workers, len(tasks)),
        mp_context=_Context(),
        initializer=_begin,
        initargs=(prepare.__module__, prepare.__name__, *given),
    )
    try:
        running: dict[Future[Found], Task] = {pool.submit(act, task): task for task in tasks}
        while running:
            done, _ = wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            meanwhile()
            for future in done:
                task, found = running.pop(future), future.result()
                yield task, found
                running |= {pool.submit(act, one): one for one in more(task, found)}
    except BaseException as error:
        processes = list(pool._processes.values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                "a worker process was killed from outside, probably because the memory ran out; fewer workers, or a "
                "smaller problem, need less"
            ) from error
        raise
    pool.shutdown()


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers, and they would wait for tasks for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _begin(module: str, prepare: str, *given: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    begin = getattr(load(module), prepare)
    gc.freeze()  # what is loaded is no garbage: nobody looks through it again, not at the end either
    begin(*given)
