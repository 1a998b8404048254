"""Bytes between processes: members are heard, the newest of each link, and strangers are turned away and counted."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

zmq = pytest.importorskip("zmq")

from dsgt.networks.zeromq import Keys, Mailbox  # noqa: E402
from support.launch import HANGING  # noqa: E402

ANYWHERE = "tcp://127.0.0.1:*"


@contextmanager
def mailboxes(n: int, *, encrypted: bool = True, longest: int = 1000) -> Iterator[list[Mailbox]]:
    """Everybody tells everybody."""
    keys = [Keys.new() if encrypted else None for _ in range(n)]
    boxes = [Mailbox(ANYWHERE, pair, longest=longest) for pair in keys]
    about = {
        i: (box.address, pair.public if pair else "") for i, (box, pair) in enumerate(zip(boxes, keys, strict=True))
    }
    for i, box in enumerate(boxes):
        box.join({j: one for j, one in about.items() if j != i})
        box.keys = keys[i]  # for those who pretend
    try:
        yield boxes
    finally:
        for box in boxes:
            box.close()


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANGING
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def heard(box: Mailbox, said: bytes, send: Callable[[], None] = lambda: None) -> list[tuple[int | None, bytes]]:
    """All that comes until this does; ``send`` is done again and again, by those who may not have been let in."""
    found: list[tuple[int | None, bytes]] = []

    def come() -> bool:
        send()
        found.extend((j, bytes(data)) for j, data in box.receive(0.05))
        return any(data == said for _, data in found)

    until(come)
    return found


@pytest.mark.parametrize("encrypted", [True, False], ids=["encrypted", "open"])
def test_who_sent_something_is_known_by_its_key(encrypted: bool):
    with mailboxes(3, encrypted=encrypted) as boxes:
        boxes[1].send(0, b"from one")
        assert heard(boxes[0], b"from one") == [(1 if encrypted else None, b"from one")]
        boxes[2].send(0, b"from two")
        assert heard(boxes[0], b"from two") == [(2 if encrypted else None, b"from two")]


def test_of_each_link_only_the_newest_is_kept_whoever_is_slow():
    with mailboxes(3, longest=100_000) as boxes:
        for number in range(500):
            for sender in (1, 2):
                boxes[sender].send(0, b"%d from %d" % (number, sender) + bytes(50_000))
        found: dict[int | None, list[int]] = {1: [], 2: []}

        def both() -> bool:
            for j, data in boxes[0].receive(0.05):
                found[j].append(int(data.split(b" ")[0]))
            return all(numbers and numbers[-1] == 499 for numbers in found.values())

        until(both)
        for numbers in found.values():
            assert numbers == sorted(numbers)
            assert len(numbers) < 100


def test_sending_to_somebody_who_is_not_there_does_not_wait_and_the_newest_arrives_when_it_comes():
    keys = Keys.new(), Keys.new()
    here = Mailbox(ANYWHERE, keys[0], longest=100)
    with socket.socket() as probe:  # bound but not listening: nobody is there, and nobody else can be
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        here.join({1: (address, keys[1].public)})
        for number in range(1000):
            here.send(1, b"%d" % number)
    late = Mailbox(address, keys[1], longest=100)
    late.door.members[keys[0].public] = (
        0  # before the other knocks again, after 50 ms; else it would have to send again
    )
    assert heard(late, b"999", lambda: here.send(1, b"999"))[0] == (0, b"999")
    here.close()
    late.close()


def client(box: Mailbox, mine: Keys | None, server: str | None) -> zmq.Socket:
    other = zmq.Context.instance().socket(zmq.PUSH)
    other.linger, other.reconnect_ivl, other.immediate = 0, -1, 1
    if mine is not None:
        other.curve_serverkey, other.curve_publickey = (server or "").encode(), mine.public.encode()
        other.curve_secretkey = mine.secret.encode()
    other.connect(box.address)
    return other


def raw(box: Mailbox, data: bytes) -> socket.socket:
    host, port = box.address.removeprefix("tcp://").split(":")
    other = socket.create_connection((host, int(port)))
    other.sendall(data)
    return other


STRANGERS = {
    "a key that is not on the list": lambda box: client(box, Keys.new(), box.keys.public),
    "a wrong key of the server": lambda box: client(box, Keys.new(), Keys.new().public),
    "no encryption": lambda box: client(box, None, None),
    "random bytes": lambda box: raw(box, os.urandom(5000)),
    "random bytes that begin as ZeroMQ does": lambda box: raw(box, b"\xff" + os.urandom(5000)),
    "somebody who hangs up": lambda box: raw(box, b""),
}


def test_strangers_are_turned_away_and_counted_and_members_are_heard_meanwhile():
    with mailboxes(2) as boxes:
        boxes[1].send(0, b"before")
        heard(boxes[0], b"before")
        for who, come in STRANGERS.items():
            count = boxes[0].turned_away
            other = come(boxes[0])
            until(lambda count=count: boxes[0].turned_away > count)
            boxes[1].send(0, who.encode())
            assert heard(boxes[0], who.encode()) == [(1, who.encode())]
            other.close()
        assert boxes[0].turned_away >= len(STRANGERS)  # also now, when nobody is just being greeted


def test_a_member_that_sends_more_than_a_letter_is_cut_off_before_it_is_stored():
    with mailboxes(3, longest=1000) as boxes:
        boxes[1].send(0, b"x" * 1000)
        assert len(heard(boxes[0], b"x" * 1000)) == 1
        connections = boxes[0].door._accepted
        for _ in range(20):  # a flood
            boxes[1].send(0, bytes(1 << 22))
        read: list[bytearray] = []

        def cut_off() -> bool:
            read.extend(data for _, data in boxes[0].receive())
            return bool(read) or boxes[0].door._accepted > connections  # it has come back

        until(cut_off)
        assert not read
        boxes[2].send(0, b"the others go on")
        assert heard(boxes[0], b"the others go on") == [(2, b"the others go on")]


def test_an_address_that_is_taken_is_told():
    with mailboxes(1) as boxes, pytest.raises(OSError, match="is another node running there"):
        Mailbox(boxes[0].address, Keys.new(), longest=10)


def test_nobody_is_let_in_before_it_is_known_who_belongs():
    keys = Keys.new(), Keys.new()
    here, other = (Mailbox(ANYWHERE, pair, longest=100) for pair in keys)
    other.join({0: (here.address, keys[0].public)})
    other.send(0, b"too early")
    until(lambda: here.turned_away > 0)
    here.join({1: (other.address, keys[1].public)})
    assert heard(here, b"in time", lambda: other.send(0, b"in time"))[0] == (1, b"in time")
    here.close()
    other.close()
