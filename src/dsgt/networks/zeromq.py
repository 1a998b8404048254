"""Bytes between processes that know each other's public keys: ZeroMQ, encrypted by CURVE. Only this file imports zmq.

Every node listens at one address and connects to those that it tells something. With keys both ends are known: the one
that connects knows the public key of the other, the one that listens lets in the keys of its list only, and who sent
something is the owner of the key, whatever the bytes say.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from dsgt.extras import explained

with explained():
    import zmq
    from zmq.utils import z85
    from zmq.utils.monitor import parse_monitor_message

DOMAIN = b"dsgt"
ZAP = "inproc://zeromq.zap.01"
"""Where ZeroMQ asks who may connect (its RFC 27)."""
OVERHEAD = 64
"""Bytes by which an encrypted frame is longer than what is in it, and a few to spare."""
GREETINGS = 1_000
"""Bytes that the messages of a handshake may take, however short letters are."""
HEARTBEAT, SILENCE = 2_000, 10_000
"""Milliseconds between two signs of life, and without one after which a connection is made anew: else a peer behind a
silent router is never missed."""
HANDSHAKE = 20_000
"""Milliseconds that a stranger may keep a connection open without saying who it is."""

FEW = 16
"""Messages that are read at once at least."""
RETRY = 0.2
"""Seconds after which a node that was not let in knocks again."""


@dataclass(frozen=True)
class Keys:
    """A node's own pair, each 40 characters of Z85."""

    public: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> Keys:
        public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode())

    @classmethod
    def of(cls, secret: str) -> Keys:
        return cls(zmq.curve_public(secret.encode()).decode(), secret)


def is_key(text: str) -> bool:
    """Whether it can be a key: 32 bytes in Z85."""
    if not re.fullmatch(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}", text):
        return False
    try:
        return len(z85.decode(text)) == 32
    except Exception:  # five characters may be more than four bytes hold
        return False


class Doorkeeper:
    """Who may connect. ZeroMQ asks it for every new connection that has proved to own a key, and it counts them all.

    It must stand at the door before the socket listens: ZeroMQ lets everybody in where nobody is asked.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], door: zmq.Socket[bytes]) -> None:
        self.members: dict[str, int] = {}
        """The public keys that are let in, and the numbers of the nodes that own them."""
        self._accepted = self._greeted = 0
        self._asked = context.socket(zmq.REP)
        self._asked.linger = 0
        self._asked.bind(ZAP)
        self._seen = door.get_monitor_socket(
            zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_MONITOR_STOPPED
        )
        self._thread = threading.Thread(target=self._work, name="dsgt-door", daemon=True)
        self._thread.start()

    @property
    def turned_away(self) -> int:
        """Connections that did not become those of a member: another key, none, no encryption, noise, silence. One that
        is just being made is among them until it is known."""
        return self._accepted - self._greeted

    def _work(self) -> None:
        poller = zmq.Poller()
        poller.register(self._asked, zmq.POLLIN)
        poller.register(self._seen, zmq.POLLIN)
        try:
            while True:
                ready = dict(poller.poll())
                if self._seen in ready and not self._watch():
                    return
                if self._asked in ready:
                    self._answer()
        except zmq.ContextTerminated:
            pass
        finally:
            self._asked.close()
            self._seen.close()

    def _watch(self) -> bool:
        """Count what happens at the door; False when it is closed."""
        event = parse_monitor_message(self._seen.recv_multipart())["event"]
        self._accepted += event == zmq.EVENT_ACCEPTED
        self._greeted += event == zmq.EVENT_HANDSHAKE_SUCCEEDED
        return bool(event != zmq.EVENT_MONITOR_STOPPED)

    def _answer(self) -> None:
        version, number, _, _, _, mechanism, *credentials = self._asked.recv_multipart()
        known = mechanism == b"CURVE" and len(credentials) == 1
        node = self.members.get(z85.encode(credentials[0]).decode()) if known else None
        verdict = [b"400", b"unknown key", b""] if node is None else [b"200", b"OK", str(node).encode()]
        self._asked.send_multipart([version, number, *verdict, b""])

    def close(self) -> None:
        """After its door."""
        self._thread.join()


class _Outgoing:
    """The way to one other node. ZeroMQ connects again by itself when a connection breaks, but gives up for ever where
    the other end did not let this node in, or was somebody else: that may have been too early, or passed by."""

    def __init__(self, socket: zmq.Socket[bytes], address: str) -> None:
        self.socket, self._address = socket, address
        self._given_up = socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        )
        self._next = 0.0
        socket.connect(address)

    def send(self, data: bytes | bytearray) -> None:
        if self._next or self._given_up.poll(0):
            self._try_again()
        with suppress(zmq.Again):  # there is no way at the moment; what is newer will be sent later
            self.socket.send(data, zmq.NOBLOCK, copy=False)

    def _try_again(self) -> None:
        while self._given_up.poll(0):
            self._given_up.recv_multipart()
            self._next = self._next or time.monotonic() + RETRY
        if time.monotonic() >= self._next:
            self._next = 0.0
            with suppress(zmq.ZMQError):
                self.socket.disconnect(self._address)
            self.socket.connect(self._address)

    def close(self) -> None:
        self.socket.disable_monitor()
        self._given_up.close(linger=0)
        self.socket.close(linger=0)


class Mailbox:
    """What members of a job send each other, the newest of each link only, at both ends: whoever is slow, nothing piles
    up and nobody waits.

    Closing it may lose what was sent last (ZeroMQ's CONFLATE does so, whatever LINGER says): first make sure that
    everybody has it.
    """

    def __init__(self, address: str, keys: Keys | None, *, longest: int) -> None:
        """Listen at the address, where port ``*`` is any that is free; nobody is let in yet. ``longest``: the bytes of
        the longest message that a member may send; who sends more is disconnected before they are stored."""
        self._keys, self._longest = keys, longest
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._incoming = self._socket(zmq.PULL)
        self._outgoing: dict[int, _Outgoing] = {}
        self.door: Doorkeeper | None = None
        if keys is not None:
            self._incoming.zap_domain = DOMAIN
            self._incoming.curve_server = True
            self._sign(self._incoming, keys)
            self.door = Doorkeeper(self._context, self._incoming)
        try:
            self._incoming.bind(address)
        except zmq.ZMQError as error:
            self.close()
            raise OSError(f"nothing can listen at {address}: {error}; is another node running there?") from None
        endpoint = self._incoming.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(endpoint, bytes)
        self.address = endpoint.decode().rstrip("\0")

    @property
    def turned_away(self) -> int:
        """Connections that did not become those of a member; in the open nobody knows."""
        return 0 if self.door is None else self.door.turned_away

    def join(self, members: Mapping[int, tuple[str, str]]) -> None:
        """Let these nodes in and connect to them; each with its address and its public key."""
        if self.door is not None:
            self.door.members |= {key: node for node, (_, key) in members.items()}
        for node, (address, key) in members.items():
            socket = self._socket(zmq.PUSH)
            if self._keys is not None:
                socket.curve_serverkey = key.encode()
                self._sign(socket, self._keys)
            self._outgoing[node] = _Outgoing(socket, address)

    def send(self, to: int, data: bytes | bytearray) -> None:
        """At once, in place of what that node has not been sent yet."""
        self._outgoing[to].send(data)

    def receive(self, timeout: float = 0.0) -> Iterator[tuple[int | None, bytearray]]:
        """What has come, and who sent it (None: in the open nobody knows). Waits so many seconds for the first."""
        if timeout and not self._incoming.poll(int(timeout * 1000)):
            return
        for _ in range(max(FEW, 4 * len(self._outgoing))):  # who is flooded must come to work too
            try:
                frame = self._incoming.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            yield (None if self.door is None else int(frame.get("User-Id"))), bytearray(frame.buffer)

    def close(self) -> None:
        if self._context.closed:
            return
        for outgoing in self._outgoing.values():
            outgoing.close()
        self._incoming.disable_monitor()
        self._incoming.close(linger=0)
        if self.door is not None:
            self.door.close()
        self._context.term()

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.conflate = True
        socket.reconnect_ivl, socket.reconnect_ivl_max = 50, 1_000
        socket.heartbeat_ivl, socket.heartbeat_timeout = HEARTBEAT, SILENCE
        socket.handshake_ivl = HANDSHAKE
        socket.maxmsgsize = max(self._longest + OVERHEAD, GREETINGS)
        return socket

    @staticmethod
    def _sign(socket: zmq.Socket[bytes], keys: Keys) -> None:
        socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
