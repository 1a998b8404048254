"""Being asked to stop: the first SIGINT or SIGTERM asks, a second one ends the process at once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dsgt.core import Network
from dsgt.networks.agreement import any_node

LOOK_EVERY = 10
"""Real nodes can stop only together, and asking costs a small message to all; so they ask every so many rounds."""


class Stopped(SystemExit):
    """A run was asked to stop, has saved, and can be resumed. The exit code is 128 + the signal, as in a shell."""

    def __init__(self, signal_number: int, message: str) -> None:
        super().__init__(128 + signal_number)
        self.message = message

    def __str__(self) -> str:
        return self.message


class Requests:
    """Whether somebody asked this process, or another node's, to stop."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._asked: int | None = None
        """The signal that asked this process."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Only in the main thread, because only it hears signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {n: signal.getsignal(n) or signal.SIG_DFL for n in (signal.SIGINT, signal.SIGTERM)}

        def ask(number: int, _: object) -> None:
            self._asked = number
            for n in before:
                signal.signal(n, signal.SIG_DFL)

        for number in before:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def to_stop(self, k: int) -> bool:
        """Whether to stop after k rounds. On real nodes all must ask at once, and all get the same answer."""
        if self.network.node is None:
            return self._asked is not None
        return k % LOOK_EVERY == 0 and any_node(self.network, self._asked is not None)

    def stop(self, done: str, where: str) -> Stopped:
        """What to raise; said once, by one node for all."""
        number = self._asked or signal.SIGTERM
        message = f"stopped by {signal.Signals(number).name} after {done}; {where}"
        if not self.network.node:
            print(message, file=sys.stderr, flush=True)
        any_node(self.network, False)  # nobody leaves, and perhaps ends the job, before it is said
        return Stopped(number, message)
