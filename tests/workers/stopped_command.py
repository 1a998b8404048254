"""``dsgt`` that is sent a signal when so many of its runs are finished, as from a terminal: its worker processes too.

usage: stopped_command.py RUNS SIGNAL ARGUMENT ...     (started in a session of its own)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from dsgt.checkpoint.journal import Journal
from dsgt.cli import app


def stop_after(runs: int, number: int) -> None:
    append, count = Journal.append, 0

    def stopping(self: Journal, piece: Mapping[str, Any]) -> None:
        nonlocal count
        append(self, piece)
        count += 1
        if count == runs:
            os.killpg(0, number)

    Journal.append = stopping


if __name__ == "__main__":
    stop_after(int(sys.argv[1]), int(sys.argv[2]))
    app(sys.argv[3:])
