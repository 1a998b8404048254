"""What a rank tells its neighbours when it closes a network, for those who still wait for it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from dsgt.networks.transport import Farewell

_OFFICES: list[int] = []
"""The key under which a communicator keeps its office."""


class _Office:
    """A second communicator beside one of the user's. It is never freed: a farewell that nobody reads must not turn up
    in another communicator that is given the same number afterwards."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm.Dup()
        self.networks = 0
        self.sent: list[Any] = []
        """Requests and their memory."""


class Farewells:
    """Of one network. Every rank makes its networks in the same order, so that their number is the tag."""

    def __init__(self, mpi: Any, comm: Any) -> None:
        if not _OFFICES:
            _OFFICES.append(mpi.Comm.Create_keyval())
        office = comm.Get_attr(_OFFICES[0])
        if office is None:
            office = _Office(comm)
            comm.Set_attr(_OFFICES[0], office)
        office.networks += 1
        self._mpi, self._office = mpi, office
        self._tag = office.networks % (mpi.COMM_WORLD.Get_attr(mpi.TAG_UB) + 1)
        self._heard: dict[int, Farewell] = {}

    def tell(self, farewell: Farewell) -> None:
        letter = json.dumps(asdict(farewell)).encode()
        office = self._office
        office.sent = [sent for sent in office.sent if not sent[0].Test()]
        office.sent += [
            (office.comm.Isend([letter, self._mpi.BYTE], dest=i, tag=self._tag), letter) for i in farewell.to
        ]

    def will_not_send(self, node: int, number: int) -> bool:
        """A farewell says how much was sent, because it may overtake a message."""
        heard = self._hear(node)
        return heard is not None and not heard.has_sent(number)

    def words(self) -> dict[int, str]:
        nodes = range(self._office.comm.Get_size())
        return {i: heard.words for i in nodes if (heard := self._hear(i)) is not None}

    def _hear(self, node: int) -> Farewell | None:
        if node not in self._heard:
            status = self._mpi.Status()
            message = self._office.comm.Improbe(source=node, tag=self._tag, status=status)
            if message is None:  # nothing has come, or another thread is reading it
                return self._heard.get(node)
            letter = bytearray(status.Get_count(self._mpi.BYTE))
            message.Recv([letter, self._mpi.BYTE])
            self._heard[node] = Farewell(**json.loads(letter))
        return self._heard[node]
