"""Real nodes, one process each: what they compute, and what happens when one of them dies, fails or hangs."""

from __future__ import annotations

import re
import subprocess

import pytest
import torch.distributed as dist

from dsgt.networks import TorchPeers
from support.launch import TESTS, free_port, launch

WORKER = str(TESTS / "workers" / "behaviour_worker.py")


kinds = pytest.mark.parametrize("kind", ["torch", "mpi"])
beside = pytest.mark.parametrize("beside", [(), ("beside",)], ids=["in front", "beside"])


@pytest.mark.parametrize(("n", "beside"), [(2, ()), (3, ()), (3, ("beside",))])
@kinds
def test_real_nodes_open_mix_gather_drain_refuse_and_reopen_as_promised(kind: str, n: int, beside: tuple[str, ...]):
    finished = launch(kind, n, WORKER, kind, "peaceful", *beside)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_a_restarted_job_does_not_read_the_addresses_of_the_one_before(monkeypatch: pytest.MonkeyPatch):
    """torchrun keeps one store over all its restarts; what every start writes there must be its own."""
    here, port = "127.0.0.1", free_port()
    kept = dist.TCPStore(here, port, is_master=True)
    about = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": here, "MASTER_PORT": port}
    for name, value in (about | {"TORCHELASTIC_USE_AGENT_STORE": True}).items():
        monkeypatch.setenv(name, str(value))

    class Joined(Exception):  # noqa: N818 - no error: far enough
        pass

    def join(*_: object, store: dist.Store, **__: object) -> None:
        raise Joined(store)

    def store_of_start(number: int) -> dist.Store:
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(number))
        with pytest.raises(Joined) as joined:
            TorchPeers([[1.0]])
        return joined.value.args[0]

    monkeypatch.setattr(dist, "init_process_group", join)
    store_of_start(0).set("address of node 0", "dead")
    assert store_of_start(0).check(["address of node 0"])
    assert not store_of_start(1).check(["address of node 0"])
    assert kept.num_keys() > 0


@pytest.mark.parametrize(("fault", "beside"), [("dies", ()), ("raises", ()), ("dies", ("beside",))])
@kinds
def test_a_node_that_ends_ends_the_job_with_an_exit_code(kind: str, fault: str, beside: tuple[str, ...]):
    finished = launch(kind, 3, WORKER, kind, fault, *beside)
    assert finished.returncode != 0
    if fault == "raises":
        assert "node 1 has a bug" in finished.stdout + finished.stderr


@beside
@kinds
def test_a_node_that_hangs_is_named_by_its_neighbours_and_the_job_ends(kind: str, beside: tuple[str, ...]):
    finished = launch(kind, 3, WORKER, kind, "hangs", *beside)
    assert finished.returncode != 0
    says = re.findall(r"node (\d) waited .*? says: .* its neighbour, node (\d),", finished.stdout)
    assert says, finished.stdout + finished.stderr
    assert {neighbour for _, neighbour in says} == {"1"}


@kinds
def test_everybody_names_a_neighbour_when_one_is_missing_from_an_all_reduce(kind: str):
    finished = launch(kind, 4, WORKER, kind, "absent")
    assert finished.returncode != 0
    says = re.findall(r"node (\d) says: node \d heard nothing from (.*?) for", finished.stdout)
    assert says, finished.stdout + finished.stderr
    # the launcher may have ended a node that has not spoken yet
    assert set(says) <= {(str(i), f"its neighbour, node {i + 1},") for i in range(3)}, says


def told(finished: subprocess.CompletedProcess[str]) -> list[str]:
    says = re.findall(r"node \d says: (.*)", finished.stdout)
    assert says, finished.stdout + finished.stderr
    return says


@kinds
def test_nodes_that_send_messages_of_different_kinds_say_so_and_nothing_is_mixed(kind: str):
    finished = launch(kind, 2, WORKER, kind, "differs")
    assert "terminate called" not in finished.stderr
    first = (
        "node 0 and its neighbour, node 1, do not run the same thing (it sends 20 numbers of torch.float64, "
        "this node 10 numbers of torch.float64)"
    )
    dtype = (
        "node 1 and its neighbour, node 0, do not run the same thing (it sends 20 numbers of torch.float32, "
        "this node 10 numbers of torch.float64)"
    )
    says = told(finished)
    assert says.count(first) == says.count(dtype) == 2  # in an exchange and in an all-reduce
    later = [text for text in says if "numbers of" not in text]
    assert len(later) == 2
    assert all("a message of another length" in text or "it sent 40 bytes, but 80 were" in text for text in later)
    assert any("it sent 40 bytes" in text for text in later) == (kind == "mpi")  # gloo does not receive it


@kinds
def test_a_node_that_has_ended_is_not_waited_for(kind: str):
    for text in told(launch(kind, 3, WORKER, kind, "ends")):
        assert "but node 1 has ended after 3 rounds (3 mixings)" in text


def test_the_error_of_a_node_that_goes_on_is_told_to_its_neighbours():
    for text in told(launch("torch", 3, WORKER, "torch", "fails")):
        assert "node 1 has failed with ZeroDivisionError('node 1 has a bug') after 1 mixing" in text
