"""Worker processes do not outlive who started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

from support.launch import HANGING, environment

SCRIPT = """
import os, time
from multiprocessing import active_children
from dsgt.processes import run_tasks

def tell():
    if len(children := active_children()) == 2:
        print(*(child.pid for child in children), flush=True)

list(run_tasks(time.sleep, [3600.0, 3600.0], 2, prepare=os.getpid, meanwhile=tell))
"""


def test_workers_end_when_their_parent_is_killed():
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    workers = [int(word) for word in parent.stdout.readline().split()]
    parent.kill()
    try:
        parent.communicate(timeout=HANGING)  # its output ends when nobody holds it any more
    finally:
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
