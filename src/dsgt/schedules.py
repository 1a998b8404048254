"""Learning rates that change during a run, as functions of the round: ``run(..., lr=schedules.cosine(0.1, rounds))``.

Every one may warm up: it then grows linearly to its full value over a first share of the rounds.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence

from dsgt.factories import Factory, a_thing, is_factory, lookup, pairs
from dsgt.text import nearest

Rate = Callable[[int], float]
LOOKED_AT = 1000
"""At how many shares of a run one's own schedule is looked at before it begins."""


def constant(lr: float, rounds: int, *, warmup: float = 0.0) -> Rate:
    """lr, after the warm-up."""
    return _scaled(lr, rounds, warmup, lambda share: 1.0)


def cosine(lr: float, rounds: int, *, warmup: float = 0.0, end: float = 0.0) -> Rate:
    """From lr down to ``end`` times lr, which it would reach after the last round, along half a cosine."""
    _check_share("end", end)
    return _scaled(lr, rounds, warmup, lambda share: end + (1 - end) * (1 + math.cos(math.pi * share)) / 2)


def linear(lr: float, rounds: int, *, warmup: float = 0.0, end: float = 0.0) -> Rate:
    """From lr down to ``end`` times lr, which it would reach after the last round, along a line."""
    _check_share("end", end)
    return _scaled(lr, rounds, warmup, lambda share: 1 - (1 - end) * share)


def step(
    lr: float, rounds: int, *, warmup: float = 0.0, at: Sequence[float] | float | str = (0.5, 0.75), by: float = 0.1
) -> Rate:
    """lr times ``by`` once after each of these shares of the rounds; in words ``step:at=0.5/0.75,by=0.1``."""
    where = _shares(at)
    if not (math.isfinite(by) and by > 0):
        raise ValueError(f"by is {by}; give what the learning rate is multiplied with, above 0")
    return _scaled(lr, rounds, warmup, lambda share: by ** sum(share >= a for a in where), after_warmup=False)


SCHEDULES: dict[str, Callable[..., Rate]] = {"constant": constant, "cosine": cosine, "linear": linear, "step": step}


def named_schedule(given: str | Factory) -> Callable[[float, int], Rate | float]:
    """``cosine``, or with arguments ``cosine:warmup=0.05``: (lr, rounds) -> the learning rate of every round.

    Your own is ``module:name``, a function of the share of the run that is done, which gives the factor of lr."""
    own = own_schedule(given)
    if own is None:
        return _built_in(str(given))
    factors(own)  # so that a wrong one is told now
    return lambda lr, rounds: _scaled(lr, rounds, 0.0, _factor(own))


def own_schedule(given: str | Factory) -> Factory | None:
    """A person's own; None where it is one of ``SCHEDULES``."""
    if isinstance(given, Factory):
        return given
    if (name := given.partition(":")[0]) in SCHEDULES:
        return None
    if not is_factory(given):
        raise ValueError(nearest(name, SCHEDULES, "schedule") + "; or your own, module:name")
    return lookup(given, "schedule")


def factors(own: Factory) -> list[float]:
    """What one's own schedule gives along a run; a ValueError where that is no factor."""
    factor = _factor(own)
    found = {share: factor(share) for share in (k / LOOKED_AT for k in range(LOOKED_AT))}
    for share, value in found.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(
                f"the schedule {own.text!r} gives {value} where {share:g} of the run is done; expected a factor of the "
                "learning rate, a finite number above 0"
            )
    return list(found.values())


def _factor(own: Factory) -> Callable[[float], float]:
    """Of the share of the run that is done."""
    f = own.function(0.0)

    def factor(share: float) -> float:
        made = f(share)
        try:
            return float(made)
        except (TypeError, ValueError):
            raise ValueError(
                f"the schedule {own.text!r} gives {a_thing(made)}; expected a function of the share of the run that is "
                "done, from 0 to 1, which gives the factor of the learning rate"
            ) from None

    return factor


def _built_in(text: str) -> Callable[[float, int], Rate | float]:
    name, colon, given = text.partition(":")
    known = [key for key in inspect.signature(SCHEDULES[name]).parameters if key not in ("lr", "rounds")]
    options: dict[str, float | str] = {}
    for key, value in (pairs(text, given) if colon else {}).items():
        if key not in known:
            raise ValueError(nearest(key, known, f"argument of the schedule {name}"))
        try:
            options[key] = value if key == "at" else float(value)
        except ValueError:
            raise ValueError(f"{key} is {value!r} in {text!r}; expected a number") from None

    def made(lr: float, rounds: int) -> Rate | float:
        return SCHEDULES[name](lr, rounds, **options) if options or name != "constant" else lr

    made(1.0, 1)  # so that a wrong argument is told now
    return made


def _scaled(
    lr: float, rounds: int, warmup: float, factor: Callable[[float], float], *, after_warmup: bool = True
) -> Rate:
    """lr factor(share of the rounds that are done); of those after the warm-up where that is meant."""
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}; a schedule is for a run of at least 1 round")
    _check_share("warmup", warmup)
    warm = round(warmup * rounds)
    first = warm if after_warmup else 0

    def rate(k: int) -> float:
        k = min(k, rounds - 1)  # who looks at the end of a run sees its last learning rate
        return lr * (k + 1) / (warm + 1) if k < warm else lr * factor((k - first) / (rounds - first))

    return rate


def _check_share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name} is {value}; it is a share, 0 <= {name} < 1")


def _shares(at: Sequence[float] | float | str) -> tuple[float, ...]:
    given = at.split("/") if isinstance(at, str) else [at] if isinstance(at, float | int) else at
    try:
        shares = tuple(float(a) for a in given)
    except ValueError:
        raise ValueError(f"at is {at!r}; expected shares of the run as in 0.5/0.75") from None
    if not shares or not all(0 < a < 1 for a in shares):
        raise ValueError(f"at is {at!r}; expected shares of the run, each between 0 and 1, as in 0.5/0.75")
    return shares
