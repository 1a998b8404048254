"""One node as data: its state, its mail, and what happens to it. The simulator, the real runtime and the replay drive
this object in the same way, so they compute the same numbers; a checkpoint of a node is a copy of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias

import torch
from torch import Tensor

from dsgt.asynchronous.core import AsyncAlgorithm, Rate
from dsgt.asynchronous.mail import Letter, Links, Mail, under_way
from dsgt.core import S, changed, tensors, with_tensors

WOKE: Final = -1
RESTED: Final = -2
ENTERED: Final = -3

Event: TypeAlias = tuple[int, int, int]
"""(node, what, number): the node woke, rested, or entered phase ENTERED - what, in its event of this number; or it
heard the letter of this number that node ``what`` >= 0 wrote. So a recorded run needs no contents and no clock."""

RETURNED: Final = 1 << 32
"""Added to the number of events by a node that comes back: what it writes is newer than all it wrote before."""


class Node(Generic[S]):
    def __init__(
        self,
        algorithm: AsyncAlgorithm[S],
        links: Links,
        x0: Tensor,
        lr: Rate,
        *,
        seed: int = 0,
        record: Callable[[Event], None] | None = None,
    ) -> None:
        """record: is told every event, for ``replay``. Where x0 is an array of NumPy's, so is everything else."""
        self.algorithm, self.lr, self.record = algorithm, lr, record
        self.i = links.node
        self.mail = Mail(links, x0, seed=seed)
        self.state = algorithm.init(torch.as_tensor(x0))
        if not isinstance(x0, Tensor):
            self.state = changed(self.state, lambda name, v: v.numpy())
        self.point: Tensor = self.state[0]
        """Where the gradient is computed that is under way."""

    def hear(self, letter: Letter) -> bool:
        """A letter has come; False, and nothing has happened, if it is no newer than what is known."""
        mail, j = self.mail, letter.sender
        box = mail.of[j]
        if box.letter is not None and box.letter.number >= letter.number:
            return False
        mail.number += 1
        box.letter = letter
        out = mail.to.get(j)
        if out is not None and letter.answered >= out.asked:
            out.question = None  # it need not travel again
        if letter.question is not None:
            if letter.asked > box.answered:
                box.answered = letter.asked
                self.state = self.algorithm.answer(self.state, j, letter.question, mail)
            mail.changed[j] = None  # the answer, once more where it may have been lost
        self._tell(j, letter.number)
        return True

    def wake(self, g: Tensor) -> None:
        """The gradient at ``point`` is ready."""
        mail = self.mail
        mail.number += 1
        self.state = self.algorithm.wake(self.state, g, mail, self.lr)
        self.point = self.state[0]
        mail.k += 1
        self._tell(WOKE, mail.number)

    def rest(self) -> None:
        """No gradient any more: take what has come."""
        self.mail.number += 1
        self.state = self.algorithm.rest(self.state, self.mail)
        self._tell(RESTED, self.mail.number)

    def enter(self, phase: int) -> None:
        """From now on every letter says that this node is so far."""
        self.mail.number += 1
        self.mail.phase = phase
        self.mail.repeat()
        self._tell(ENTERED - phase, self.mail.number)

    def _tell(self, what: int, number: int) -> None:
        if self.record is not None:
            self.record((self.i, what, number))

    def saved(self) -> dict[str, Tensor]:
        """All of the node, by name. A node saves itself when it likes; nobody else need know.

        At each node, what it holds + all it has given - all it has taken = what it should hold. An old checkpoint
        satisfies that as well as a new one, and so does the sum over the nodes, wherever the others are by now: who has
        taken more from this node than it now says to have given takes the difference back.
        """
        mail = self.mail
        found: dict[str, Tensor | None] = {f"state.{name}": v for name, v in tensors(self.state).items()}
        found |= {"point": self.point, "said": mail.said, "counts": torch.tensor([mail.k, mail.number, mail.phase])}
        for r, out in mail.to.items():
            found |= {f"to.{r}.total": out.total, f"to.{r}.question": out.question}
            found[f"to.{r}.asked"] = torch.tensor(out.asked)
        for j, box in mail.of.items():
            if box.letter is not None:
                found |= {f"of.{j}.said": box.letter.said, f"of.{j}.total": box.letter.total}
                found[f"of.{j}.number"] = torch.tensor([box.letter.number, box.letter.phase])
            found |= {f"of.{j}.taken": box.taken, f"of.{j}.answered": torch.tensor(box.answered)}
        return {name: v for name, v in found.items() if v is not None}

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        """Come back as it was then; what it writes from now on is newer than all that it wrote before.

        Save the node again at once: a second return from the same checkpoint must be newer than the first."""
        mail = self.mail
        self.state = with_tensors(self.state, {name: saved[f"state.{name}"] for name in tensors(self.state)})
        self.point, mail.said = saved["point"], saved.get("said")
        mail.k, number, mail.phase = saved["counts"].tolist()
        mail.number = max(number, mail.number) + RETURNED
        for r, out in mail.to.items():
            out.total, out.question = saved.get(f"to.{r}.total"), saved.get(f"to.{r}.question")
            out.asked = int(saved[f"to.{r}.asked"])
        for j, box in mail.of.items():
            box.letter, box.taken = None, saved.get(f"of.{j}.taken")
            box.answered = int(saved[f"of.{j}.answered"])
            if f"of.{j}.number" in saved:
                number, phase = saved[f"of.{j}.number"].tolist()
                box.letter = Letter(j, number, saved.get(f"of.{j}.said"), saved.get(f"of.{j}.total"), phase=phase)
        mail.repeat()


def mass(nodes: Sequence[Node[Any]]) -> Tensor:
    """The sum over all nodes of what they hold, and of what was given and not yet taken, (m,)."""
    total = sum(torch.as_tensor(node.algorithm.held(node.state)).double() for node in nodes)
    for node in nodes:
        for r, out in node.mail.to.items():
            taken = nodes[r].mail.of[node.i].taken
            if out.total is not None or taken is not None:
                total = total + torch.as_tensor(under_way(out.total, taken))
    assert isinstance(total, Tensor)
    return total
