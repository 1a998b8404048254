"""Start a module as several real nodes on this machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

MPIEXEC = Path(sys.executable).with_name("mpiexec")


def launchers() -> list[str]:
    """What can start nodes here: torchrun always, mpiexec where it is installed."""
    return ["torchrun"] + ["mpiexec"] * (MPIEXEC.is_file() and importlib.util.find_spec("mpi4py") is not None)


def launch(launcher: str, nodes: int, module: str, argument: str) -> str:
    """Run ``python -m module argument`` as so many nodes of one thread each; what they print."""
    python = [sys.executable, "-m", module, argument]
    if launcher == "torchrun":
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={nodes}"]
        command += ["-m", module, argument]
    else:
        command = [str(MPIEXEC), "--oversubscribe", "-n", str(nodes), *python]
    source = str(Path(__file__).parents[2])
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",  # in a container there is often nobody else
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{launcher} with {nodes} nodes failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout
