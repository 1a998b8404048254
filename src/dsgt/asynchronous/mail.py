"""The mail of one node: what it tells its neighbours and knows of them. Data only: no time, no transport.

Two kinds of things travel. What is *said* (a model, a clock): the newest counts. What is *given* (the pieces of a
tracker, of push-sum's u and w): it adds up, so it travels as a running total, and the receiver subtracts what it has
taken before. So a letter that is lost, doubled, overtaken, or replaced by a newer one before it was read costs
nothing: the next one makes good for it. Totals are float64, since they grow while what is taken does not.

Where tensors are small, a simulator uses NumPy's arrays in the place of tensors; every line here takes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from dsgt import randomness
from dsgt.core import Weights


@dataclass(frozen=True)
class Links:
    """What one node needs of A, with which models are pulled, and of P, with which pieces are pushed."""

    node: int
    own: float
    """A[i, i]"""
    hears: dict[int, float]
    """j: A[i, j]"""
    keeps: float
    """P[i, i]"""
    gives: dict[int, float]
    """r: P[r, i]"""
    heard_by: frozenset[int]
    """Those r with A[r, i]: they are told what the node says."""
    tells: tuple[int, ...]
    """Whom the node writes letters to."""
    listens: tuple[int, ...]
    """Whose letters it gets."""

    @classmethod
    def of(cls, weights: Weights, node: int) -> Links:
        """A is the weights' first matrix and P the second; where there is only one, it is both."""
        A, P = weights.at(0), weights.push.at(0)
        row_a, row_p = (_others(M[[node], :], node) for M in (A, P))
        column_a, column_p = (_others(M[:, [node]].T, node) for M in (A, P))
        return cls(
            node,
            own=float(A[node, node]),
            hears=row_a,
            keeps=float(P[node, node]),
            gives=column_p,
            heard_by=frozenset(column_a),
            tells=tuple(sorted({*column_a, *column_p})),
            listens=tuple(sorted({*row_a, *row_p})),
        )


def _others(line: Any, node: int) -> dict[int, float]:
    sparse = scipy.sparse.csr_array(line)
    found = {int(j): float(value) for j, value in zip(sparse.indices, sparse.data, strict=True)}
    return {j: value for j, value in sorted(found.items()) if value and j != node}


class Letter(NamedTuple):
    """All that node ``sender`` wants one neighbour to know, as of its event ``number``. The newest replaces all
    others."""

    sender: int
    number: int
    said: Tensor | None
    total: Tensor | None
    """All that was ever given to the receiver."""
    question: Tensor | None = None
    asked: int = 0
    """The number of the event that asked; 0 for never."""
    answered: int = 0
    """The newest question of the receiver that the total answers."""
    phase: int = 0
    """How far the sender is with beginning and ending, where somebody waits for it: see the real runtime."""

    @property
    def nbytes(self) -> int:
        size = 0 if self.said is None else self.said.nbytes
        size += 0 if self.total is None else self.total.nbytes
        return size if self.question is None else size + self.question.nbytes


@dataclass
class Outgoing:
    total: Tensor | None = None
    question: Tensor | None = None
    asked: int = 0


@dataclass
class Incoming:
    letter: Letter | None = None
    """The newest."""
    taken: Tensor | None = None
    answered: int = 0
    """The newest of its questions that was answered."""


class Mail:
    def __init__(self, links: Links, like: Tensor, *, seed: int = 0) -> None:
        """like: a tensor of the kind that methods compute with; what is taken becomes such a one."""
        self.links = links
        self.k = 0
        """How often the node has woken before."""
        self.number = 0
        """Of this node's events; grows for ever, also over restarts."""
        self.phase = 0
        self.said: Tensor | None = None
        self.to = {r: Outgoing() for r in links.tells}
        self.of = {j: Incoming() for j in links.listens}
        self._asked_at = 0
        self.changed: dict[int, None] = {}
        """Who has not been sent the newest letter, in the order of asking."""
        tensors = isinstance(like, Tensor)
        self._dtype, self._double = like.dtype, torch.float64 if tensors else np.dtype(np.float64)
        self._maximum: Any = torch.maximum if tensors else np.maximum
        self._everybody = dict.fromkeys(links.tells)
        self._draws = randomness.Draws(seed, WHOM, links.node)

    # --- what a method uses

    def pull(self, v: Tensor) -> Tensor:
        """Say v. A v: of every neighbour the newest it said; who was never heard is of one's own opinion."""
        self._say(v)
        mixed = self.links.own * v
        for j, a in self.links.hears.items():
            letter = self.of[j].letter
            mixed = mixed + a * (v if letter is None or letter.said is None else letter.said)
        return mixed

    def highest(self, v: Tensor) -> Tensor:
        """Say v. The largest of v and of what the neighbours said last."""
        self._say(v)
        for j in self.links.hears:
            letter = self.of[j].letter
            if letter is not None and letter.said is not None:
                v = self._maximum(v, letter.said)
        return v

    def push(self, v: Tensor) -> Tensor:
        """Give P[r, i] v to every r; what stays, P[i, i] v."""
        for r, p in self.links.gives.items():
            self.give(r, p * v)
        return self.links.keeps * v

    def take(self) -> Tensor | float:
        """All that has been given to this node and has come since it last took."""
        found: Tensor | float = 0.0
        for box in self.of.values():
            if box.letter is not None and box.taken is not box.letter.total:
                found = found + _cast(under_way(box.letter.total, box.taken), self._dtype)
                box.taken = box.letter.total
        return found

    def give(self, r: int, v: Tensor) -> None:
        """To one neighbour."""
        out, v = self.to[r], _cast(v, self._double)
        out.total = v if out.total is None else out.total + v
        self.changed[r] = None

    def repeat(self) -> None:
        """Write to everybody, though nothing is new: what a letter makes good for may have been lost."""
        self.changed.update(self._everybody)

    def ask(self, v: Tensor) -> None:
        """A question to one neighbour, drawn from (seed, node, k): its method answers as soon as it comes.

        One at a time: who asks again before the answer has come would be moved several times by one difference. Until
        then the old question is repeated, ever more rarely, since it or its answer may have been lost.
        """
        for r, out in self.to.items():
            if out.question is not None:
                waited = self.k - self._asked_at
                if waited & (waited - 1) == 0:  # 1, 2, 4, 8 ... wakes
                    self.changed[r] = None
                return
        if self.links.tells:
            r = self.links.tells[int(self._draws(self.k) * len(self.links.tells))]
            self.to[r].question, self.to[r].asked, self._asked_at = v, self.number, self.k
            self.changed[r] = None

    def _say(self, v: Tensor) -> None:
        self.said = v
        self.repeat()

    # --- what a runtime uses

    def letter(self, r: int) -> Letter:
        """What r should know now."""
        out = self.to[r]
        said = self.said if r in self.links.heard_by else None
        answered = self.of[r].answered if r in self.of else 0
        return Letter(self.links.node, self.number, said, out.total, out.question, out.asked, answered, self.phase)


WHOM = 7919
"""The coordinate that tells these draws from others of the same seed."""


def under_way(total: Tensor | None, taken: Tensor | None) -> Any:
    """What was given and not taken. Negative where the giver came back from a time at which it had given less."""
    return total if taken is None else -taken if total is None else total - taken


def _cast(v: Any, dtype: Any) -> Any:
    return v if v.dtype == dtype else v.to(dtype) if isinstance(v, Tensor) else v.astype(dtype)
