"""What a launcher tells a process can be hidden from objects that would act on it."""

from __future__ import annotations

import os

import pytest
import torch.distributed as dist

import dsgt
from dsgt.networks.launched import launched

TOLD = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_PORT": "29500", "OMPI_COMM_WORLD_RANK": "1"}
TOLD |= {"OMPI_COMM_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none", "SLURM_NTASKS": "4", "PMI_RANK": "1"}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (TOLD | {"OMP_NUM_THREADS": "1"}).items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("told")
def test_the_launcher_is_hidden_while_the_block_lasts_and_nothing_else_is():
    before = dict(os.environ)
    assert dist.is_torchelastic_launched()
    with dsgt.alone():
        assert launched().kind == "simulator"
        assert not dist.is_torchelastic_launched()
        assert before.items() - os.environ.items() == TOLD.items()
    assert dict(os.environ) == before


@pytest.mark.usefixtures("told")
def test_an_error_in_the_block_does_not_keep_the_launcher_hidden():
    with pytest.raises(RuntimeError, match="mine"), dsgt.alone():
        raise RuntimeError("mine")
    assert os.environ["RANK"] == "1"


@pytest.mark.usefixtures("told")
def test_what_is_set_in_the_block_is_not_taken_for_the_launchers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MASTER_PORT")
    before = dict(os.environ)
    with dsgt.alone():
        os.environ |= {"RANK": "0", "MASTER_PORT": "29500"}  # as some of these objects do
    assert dict(os.environ) == before
