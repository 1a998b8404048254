"""Asynchronous methods as real processes over ZeroMQ, encrypted: a recorded run is replayed bit for bit; killed,
stopped and disturbed, the job goes on and ends right. Four processes are started once for all of it."""

from __future__ import annotations

import itertools
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch

pytest.importorskip("zmq")

from dsgt.asynchronous import recorded
from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.letters import Envelope, Form
from dsgt.asynchronous.mail import Letter, Links
from dsgt.asynchronous.node import Node
from dsgt.asynchronous.real import FAREWELL
from dsgt.networks.roster import read_roster
from dsgt.networks.zeromq import Keys, Mailbox
from dsgt.topologies.changing import Fixed
from faults.async_jobs import AsyncJob, ended, started
from workers.async_worker import DIM, NODES, SEED, WAKES, W, stochastic


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsyncJob]:
    with started(tmp_path_factory.mktemp("job"), ["methods"] * NODES, folders=[*ASYNCHRONOUS, "disturbed"]) as made:
        made.progress_in = made.folder / "disturbed"
        yield made


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_a_recorded_run_is_replayed_bit_for_bit_after_every_wake(job: AsyncJob, name: str):
    folder = job.folder / name
    job.until(lambda: all((folder / f"saved-{i}.pt").exists() for i in range(NODES)), dead=(1,))
    records = [recorded.read(recorded.path_of(folder / "run.log", i), i) for i in range(NODES)]
    nodes = [
        Node(ASYNCHRONOUS[name](), Links.of(Fixed(W), i), torch.zeros(DIM), lambda k: 0.1, seed=SEED)
        for i in range(NODES)
    ]
    assert recorded.replayed(nodes, records, stochastic) == sum(WAKES.values()) + NODES
    for i, node in enumerate(nodes):
        assert json.loads((folder / f"result-{i}.json").read_text())["refused"] == {}
        real = torch.load(folder / f"saved-{i}.pt")
        ours = node.saved()
        assert all(torch.equal(real[key], ours[key]) for key in ours if key.startswith(("state.", "to.")))
        for j, box in node.mail.of.items():  # nothing was under way
            given = nodes[j].mail.to[i].total
            assert (given is None) == (box.taken is None)
            assert given is None or torch.equal(given, box.taken)
    assert sum(len(record.events) for record in records) > sum(WAKES.values()) + NODES  # they heard each other


NOISE = 40


@contextmanager
def callers(folder: Path) -> Iterator[Callable[[], None]]:
    """Everybody who should not be listened to calls on node 0, and the secret of node 1 was stolen."""
    roster = read_roster(folder / "peers.toml", secret=folder / "node-1.secret")
    there, stolen = roster.peers[0], roster.keys
    form = Form.of(ASYNCHRONOUS["asy-sonata"](), torch.zeros(DIM, dtype=torch.float64))
    with ExitStack() as stack:
        boxes = []
        for keys, server in ((Keys.new(), there.key), (Keys.new(), Keys.new().public), (None, "")):
            box = Mailbox("tcp://127.0.0.1:*", keys, longest=1000)
            stack.callback(box.close)
            box.join({0: (there.address, server)})
            boxes.append(box)
        thief = Mailbox("tcp://127.0.0.1:*", stolen, longest=1 << 22)
        stack.callback(thief.close)
        thief.join({0: (there.address, there.key)})
        signed_as_3 = form.encode(Envelope(b"whatever", Letter(3, 1 << 50, None, None), FAREWELL, FAREWELL, 0))
        lies = itertools.cycle([signed_as_3, bytearray(b"nonsense"), bytearray(form.longest), signed_as_3[:-1]])
        for _ in range(NOISE):  # a flood of those who do not even speak ZeroMQ
            host, port = there.address.removeprefix("tcp://").split(":")
            noisy = stack.enter_context(socket.create_connection((host, int(port))))
            noisy.sendall(os.urandom(300))

        def again() -> None:
            for box in boxes:
                box.send(0, b"let me in")
            thief.send(0, next(lies))

        yield again


def test_the_job_goes_on_and_ends_right_whoever_dies_stops_or_calls(job: AsyncJob):
    folder = job.folder / "disturbed"
    job.all_met()
    job.until(lambda: job.progress(1)[0] >= 20)
    job.kill(1)
    job.others_go_on(without=1)
    k = job.progress(1)[0]
    job.processes[1] = job.start(1, "asy-sonata", folder)  # from its own checkpoint; nobody else is told
    job.until(lambda: job.progress(1)[0] > k + 30)
    job.stopped(2, job.others_go_on)

    with callers(folder) as call:
        before = job.progress(0)[0]

        def called() -> bool:
            call()
            return job.progress(0)[0] >= before + 60

        job.until(called)

    job.until(lambda: all(job.progress(i)[1] < 1e-11 for i in range(NODES)))
    (folder / "enough").touch()
    job.until(lambda: all(process.poll() == 0 for process in job.processes))

    ended(folder, "asy-sonata")
    told = json.loads((folder / "result-0.json").read_text())
    assert told["turned_away"] >= NOISE + 3
    assert told["refused"].keys() == {"signed as another", "no letter"}
