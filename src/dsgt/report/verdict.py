"""What was found, in two sentences that claim no more than the seeds allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from dsgt.comparison.method_runs import MethodRuns, final_losses
from dsgt.text import listed, percent, short, with_spread

WITHIN = "within the spread of the seeds"
RULE = (
    "Two losses differ beyond the spread when the ranges over the seeds do not overlap: the worst seed of one method "
    "ended below the best seed of the other."
)


def verdict(lines: Sequence[MethodRuns], target: float | None = None) -> tuple[str, str]:
    """Who reached the lowest loss; how its worst node does, how it compares with centralized SGD, and what diverged."""
    finished = [line for line in lines if line.converged]
    if not finished:
        return (
            "; ".join(_diverged(lines)) + ".",
            "There is nothing to compare: try smaller learning rates.",
        )
    rivals = [line for line in finished if not line.centralized] or finished
    best = min(rivals, key=lambda line: line.loss)
    others = sorted((line for line in rivals if line is not best), key=lambda line: line.loss)
    reference = [line for line in finished if line.centralized and line is not best]
    parts = [_worst_node(best, others), *(_against(best, line, target) for line in reference), *_diverged(lines)]
    nothing = "no run diverged" if others else "there is no other method to compare with"
    second = "; ".join(part for part in parts if part) or nothing
    return _lowest_loss(best, others), f"{second[0].upper()}{second[1:]}."


def _lowest_loss(best: MethodRuns, others: Sequence[MethodRuns]) -> str:
    seeds = len(best.losses)
    loss = f"{with_spread(best.loss, best.spread)}" + (f" over {seeds} seeds" if seeds > 1 else "")
    if not others:
        return f"{best.method} reached a training loss of {loss} with a learning rate of {best.lr:g}."
    lowest = f"{best.method} reached the lowest training loss, {loss}"
    if seeds == 1:
        return f"{lowest}, before {_named(others)}; with one seed nobody can tell the differences from chance."
    ahead = [line for line in others if clearly_below(best, line)]
    level = [line for line in others if not clearly_below(best, line)]
    parts = []
    if ahead:
        parts.append(f"ahead of {_named(ahead)} by more than the spread of the seeds")
    if level:
        within = f"level with {_named(level)} within {'it' if ahead else 'the spread of the seeds'}"
        always = all(always_below(best, line) for line in level)
        parts.append(within + (", though lower in every seed" if always else ""))
    return f"{lowest}, {' but '.join(parts)}."


def _diverged(lines: Sequence[MethodRuns]) -> list[str]:
    """Who diverged everywhere, and who at which learning rates."""
    said = []
    if everywhere := [line for line in lines if not line.converged]:
        gone = f"{listed(line.method for line in everywhere)} diverged at every learning rate that was tried"
        ends = [loss for line in everywhere for runs in line.grid.values() for loss in final_losses(runs)]
        partly = any(math.isfinite(loss) for loss in ends)
        said.append(gone + (", if not with every seed" if partly else ""))
    who: dict[tuple[float, ...], list[str]] = {}
    for line in lines:
        if line.converged and line.diverged_at:
            who.setdefault(tuple(line.diverged_at), []).append(line.method)
    for rates, methods in who.items():
        said.append(f"with a learning rate of {listed(f'{lr:g}' for lr in rates)} {listed(methods)} diverged")
    return said


def _worst_node(best: MethodRuns, others: Sequence[MethodRuns]) -> str:
    """The test accuracy of the leader's worst node, and who does better there."""
    key = "node_accuracy_min"
    own = best.finals(key)
    if not own:
        return ""
    sentence = f"the test accuracy of its worst node is {percent(fmean(own))}"
    rivals = {line.method: values for line in others if (values := line.finals(key))}
    if not rivals:
        return sentence
    top = max(rivals, key=lambda method: fmean(rivals[method]))
    values = rivals[top]
    overlap = len(own) > 1 and min(values) <= max(own) and min(own) <= max(values)
    if fmean(values) > fmean(own):
        return f"{sentence}, below {top} with {percent(fmean(values))}" + (f", {WITHIN}" if overlap else "")
    return f"{sentence}, the highest" + (f", but {WITHIN}" if overlap else "")


def _against(best: MethodRuns, reference: MethodRuns, target: float | None) -> str:
    """The leader beside centralized SGD, which has all data in one place."""
    name = f"centralized {reference.method.upper()} reached {with_spread(reference.loss, reference.spread)}"
    difference = reference.loss - best.loss
    said = f"{name}, {short(abs(difference), 2)} {'lower' if difference < 0 else 'higher'}" if difference else name
    if len(best.losses) > 1 and difference:
        clear = clearly_below(best, reference) or clearly_below(reference, best)
        said += f" and {'beyond' if clear else 'within'} the spread of the seeds"
    if target is None:
        return said
    own, theirs = (line.at_target(target, "virtual_seconds") for line in (best, reference))
    if not own or not theirs or short(theirs / own, 2) == "1":
        return said
    return f"{said}, and took {short(theirs / own, 2)} times as long on the virtual clock to a loss of {short(target)}"


def clearly_below(a: MethodRuns, b: MethodRuns) -> bool:
    """Whether the worst seed of a ended below the best seed of b."""
    return max(a.losses) < min(b.losses)


def always_below(a: MethodRuns, b: MethodRuns) -> bool:
    """Whether a ended below b with every seed, that is on the same shards."""
    return len(a.losses) == len(b.losses) and all(x < y for x, y in zip(a.losses, b.losses, strict=True))


def _named(lines: Sequence[MethodRuns]) -> str:
    return listed(f"{line.method} ({short(line.loss)})" for line in lines)
