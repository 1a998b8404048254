"""For objects of other packages that must take this process for the only one of its job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

HIDDEN = ("RANK", "WORLD_SIZE", "MASTER_", "LOCAL_", "GROUP_", "ROLE_", "TORCHELASTIC_", "OMPI_", "PMI_", "SLURM_")
"""How the names begin by which torchrun, MPI and Slurm tell a process its place among others."""


@contextmanager
def alone() -> Iterator[None]:
    """Hides what the launcher has told this process, for as long as the block lasts.

    Accelerate's ``Accelerator`` and the ``Trainer`` of Hugging Face or Lightning that are built in it train on this
    process's own data: they do not wrap the model in DistributedDataParallel, which would average the gradients before
    they are tracked, nor cut the node's data into pieces. A process group that exists stays. The environment belongs
    to the whole process: other threads must not ask for it meanwhile.
    """
    kept = _taken()
    try:
        yield
    finally:
        _taken()  # what those objects have set themselves must not be taken for the launcher's
        os.environ.update(kept)


def _taken() -> dict[str, str]:
    return {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(HIDDEN)}
