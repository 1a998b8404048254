"""Start a script as several real nodes and wait for them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
HANGING = 900.0
"""Seconds after which a process is taken to hang: far more than any takes on the busiest machine. Tests that end well
never depend on it."""


def environment() -> dict[str, str]:
    """One thread a process, the tests' modules importable, and MPI willing to run as root in a container."""
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",  # a rank that waits leaves its core to those that compute
    }


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def free_ports(n: int) -> list[int]:
    """So many different ones."""
    probes = [socket.socket() for _ in range(n)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def torchrun(n: int, *command: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}", *command]


def mpiexec(n: int, *command: str) -> list[str]:
    return [str(BIN / "mpiexec"), "--oversubscribe", "-n", str(n), sys.executable, *command]


LAUNCHERS = {"torch": torchrun, "mpi": mpiexec}


def launch(kind: str, n: int, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        LAUNCHERS[kind](n, *command),
        env=environment() | environ,
        capture_output=True,
        text=True,
        timeout=HANGING,
        check=False,
    )
