"""How much a run may use: epochs, rounds, gradients, megabytes or virtual seconds, the same for every method."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from dsgt.core import Algorithm, Gradient, Local
from dsgt.engine.questions import Questions
from dsgt.networks.clocked import Clocked
from dsgt.problems.base import Problem
from dsgt.run import iterate
from dsgt.text import nearest

UNITS = {
    "epochs": ("epochs", 1.0),
    "rounds": ("rounds", 1.0),
    "gradients": ("gradients", 1.0),
    "kB": ("MB", 1e-3),
    "MB": ("MB", 1.0),
    "GB": ("MB", 1e3),
    "TB": ("MB", 1e6),
    "ms": ("s", 1e-3),
    "s": ("s", 1.0),
    "min": ("s", 60.0),
    "h": ("s", 3600.0),
}
"""What a person may write, what it is measured in, and how much of that it is."""
AXES = {"epochs": "epochs", "rounds": "round", "gradients": "epochs", "MB": "megabytes", "s": "virtual_seconds"}
"""The column of a run's rows that shows how much of a budget is used."""
IDLE = 5_000
"""A method that has used nothing after so many rounds never will."""


@dataclass(frozen=True)
class Budget:
    """Of one run. A gradient is that of one sample; megabytes are sent by all nodes together; seconds are those of the
    virtual clock."""

    amount: float
    unit: str
    """epochs, rounds, gradients, MB or s."""

    @classmethod
    def of(cls, text: str) -> Self:
        """``20epochs``, ``500 rounds``, ``1e6gradients``, ``200MB``, ``1.5GB``, ``90s`` or ``2h``."""
        found = re.fullmatch(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]+)\s*", text)
        try:
            amount, unit = float(found[1]) if found else math.nan, found[2] if found else ""
        except ValueError:
            amount, unit = math.nan, ""
        if not 0 < amount < math.inf:
            raise ValueError(f"the budget is {text!r}; give a number above 0 and a unit, as in 200MB, 20epochs or 90s")
        known = {name.lower(): name for name in UNITS} | {name.lower()[:-1]: name for name in list(UNITS)[:3]}
        if unit.lower() not in known:
            raise ValueError(nearest(unit, UNITS, "unit of a budget"))
        measured, factor = UNITS[known[unit.lower()]]
        return cls(amount * factor, measured)

    def __str__(self) -> str:
        one = self.amount == 1 and len(self.unit) > 2  # MB and s are no plurals
        return f"{self.amount:.12g} {self.unit.removesuffix('s') if one else self.unit}"

    @property
    def axis(self) -> str:
        return AXES[self.unit]

    @property
    def played(self) -> bool:
        """Whether what a round uses of it is known only when it is played."""
        return self.unit in ("MB", "s")

    def check(self, algorithm: Algorithm[Any], problem: Problem, network: Callable[[], Clocked]) -> None:
        """A ValueError if it is not enough for a round, or is never used."""
        next(filter(None, self._used(algorithm, problem, network)))

    def rounds(self, algorithm: Algorithm[Any], problem: Problem, network: Callable[[], Clocked]) -> int:
        """How many fit in; a ValueError if none does. Of epochs the nearest number, and at least one."""
        a_round, epochs = self._steady(algorithm, problem), self.unit == "epochs"
        if a_round and epochs:
            return max(1, round(self.amount / a_round))
        if a_round and a_round <= self._enough:
            return int(self._enough / a_round)
        fit = next(k for k, used in enumerate(self._used(algorithm, problem, network)) if used > self._enough)
        return max(1, fit) if epochs else fit

    @property
    def _enough(self) -> float:
        """Ten times a tenth of an epoch is an epoch, whatever rounding makes of it."""
        return self.amount * (1 + 1e-9)

    def _steady(self, algorithm: Algorithm[Any], problem: Problem) -> float | None:
        """What every round uses; None where that differs."""
        if self.unit == "rounds":
            return 1.0
        return None if self.played or type(algorithm.asks) is not Gradient else self._a_batch(problem)

    def _a_batch(self, problem: Problem) -> float:
        """What the gradients of a round use."""
        return problem.epochs_per_round * (1 if self.unit == "epochs" else problem.samples)

    def _used(self, algorithm: Algorithm[Any], problem: Problem, network: Callable[[], Clocked]) -> Iterator[float]:
        """How much after each round; a ValueError if the first round is too much, or all of them are nothing."""
        if a_round := self._steady(algorithm, problem):
            totals: Iterator[float] = itertools.count(a_round, a_round)
        elif self.played:
            totals = self._sent(algorithm, problem, network())
        else:  # an oracle asks at two points, or for all samples
            played = Played(problem)
            fitted = algorithm.fitted(algorithm.over(network()), played)
            totals = (work * self._a_batch(problem) for work in _asked(fitted, problem, played))
        for k, used in enumerate(totals):
            if k == 0 and used > self._enough and self.unit != "epochs":
                raise ValueError(
                    f"the budget is {self}, but one round of {_name(algorithm)} takes {used:.3g}: give more"
                )
            if k == IDLE and not used:
                raise ValueError(f"the budget is {self}, but {_name(algorithm)} uses none of it: give another unit")
            yield used

    def _sent(self, algorithm: Algorithm[Any], problem: Problem, network: Clocked) -> Iterator[float]:
        """Megabytes or seconds after each round, played with gradients of zero: what is sent does not depend on
        them."""
        states = iterate(algorithm, Played(problem), network, lr=1.0, x0=problem.start(0))
        next(states)
        for _ in states:
            yield network.bytes_sent / 1e6 if self.unit == "MB" else network.seconds


class Played(Local):
    """Answers of zero that cost what the problem's answers cost; an equation, whose solver may need more, as much as
    one gradient."""

    def __init__(self, problem: Problem) -> None:
        self._real = real = problem.local(0)
        super().__init__(lambda x, k: torch.zeros_like(x), real.rows, real.seed)
        self.whole = real.whole

    def full(self, x: Tensor) -> Tensor:
        self.spent = self.spent + self.whole
        return torch.zeros_like(x)

    def part(self, x: Tensor, j: Tensor, q: int) -> Tensor:
        self.spent = self.spent + self.whole / q
        return torch.zeros_like(x)

    def resolvent(self, v: Tensor, j: Tensor, q: int, lr: float) -> Tensor:
        return self.part(v, j, q)

    def conjugate(self, u: Tensor, near: Tensor) -> Tensor:
        return self.full(u)

    def inverse(
        self, r: Tensor, j: Tensor, q: int, own: float | Tensor, weight: float | Tensor, near: Tensor
    ) -> Tensor:
        return self.part(r, j, q)

    def penalty(self) -> float:
        return self._real.penalty()

    def convexity(self) -> Tensor:
        return self._real.convexity()

    def smoothness(self, q: int) -> Tensor:
        return self._real.smoothness(q)


def _asked(algorithm: Algorithm[Any], problem: Problem, played: Local) -> Iterator[float]:
    """What the oracle's answers have cost after each round, in gradients of the batches of all nodes."""
    x = torch.zeros(problem.nodes, 1)
    ask = Questions(algorithm.asks, played, x)
    share = problem.batch.double().cpu() / problem.batch.double().sum().cpu()
    for k in itertools.count():
        ask(x, k, 1.0)
        yield float((ask.work * share).sum())


def _name(algorithm: Algorithm[Any]) -> str:
    return type(algorithm).__name__
