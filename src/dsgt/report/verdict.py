"""What was found, in two sentences that claim no more than the seeds allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from dsgt.comparison.method_runs import MethodRuns, final_losses
from dsgt.comparison.paired import ENOUGH, EQUAL, LEVEL, Difference, comparisons, difference
from dsgt.text import listed, percent, short, with_spread

WITHIN = "within the spread of the seeds"
MARGIN = f"{100 * EQUAL:g} %"
RULE = (
    "Methods are compared seed by seed, on the same shards. One is called lower than another when the paired t "
    f"interval of the mean ratio of their losses lies below 1, and equal when it lies within {MARGIN} of 1; otherwise "
    f"the seeds are too few to tell. The intervals of all pairs of methods hold together with {100 * LEVEL:g} % "
    "(Bonferroni). Nothing is judged while a best learning rate is the largest or the smallest that was tried."
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
    pairs = comparisons(lines)
    against = [_against(best, line, target, pairs) for line in reference]
    parts = [_worst_node(best, others), *against, *_diverged(lines)]
    nothing = "no run diverged" if others else "there is no other method to compare with"
    second = "; ".join(part for part in parts if part) or nothing
    edge = [line for line in finished if line.edge] if others or reference else []
    first = _no_verdict(edge) if edge else _lowest_loss(best, others, pairs)
    return first, f"{second[0].upper()}{second[1:]}."


def _no_verdict(edge: Sequence[MethodRuns]) -> str:
    where = listed(f"{line.method} ({line.lr:g}, the {line.edge})" for line in edge)
    return (
        f"No verdict, because the best learning rate lies at the edge of those tried for {where}: try more of them, "
        "with --lr or a larger --grow."
    )


def _lowest_loss(best: MethodRuns, others: Sequence[MethodRuns], pairs: int) -> str:
    seeds = len(best.losses)
    loss = f"{with_spread(best.loss, best.spread)}" + (f" over {seeds} seeds" if seeds > 1 else "")
    if not others:
        return f"{best.method} reached a training loss of {loss} with a learning rate of {best.lr:g}."
    lowest = f"{best.method} reached the lowest training loss, {loss}"
    if seeds < ENOUGH:
        few = "one seed" if seeds == 1 else f"{seeds} seeds"
        return f"{lowest}, before {_named(others, best)}; with {few} nobody can tell the differences from chance."
    found = {line.method: difference(best, line, pairs) for line in others}

    def judged(word: str) -> list[MethodRuns]:
        return [line for line in others if found[line.method].judgement == word]

    parts = [f"{_share(found[line.method])} below {_named([line], best)}" for line in judged("lower")]
    if equal := judged("equal"):
        parts.append(f"equal to {_named(equal, best)} within {MARGIN}")
    if unclear := judged("too few seeds") + judged("higher"):
        parts.append(f"{seeds} seeds are too few to tell it from {_named(unclear, best)}")
    return f"{lowest}: {'; '.join(parts)}."


def _share(found: Difference) -> str:
    """``31 % (28 to 34 %)``"""
    low, high = sorted((abs(found.low), abs(found.high)))
    return f"{_percents(abs(found.mean))} % ({_percents(low)} to {_percents(high)} %)"


def _percents(share: float) -> str:
    return f"{100 * share:.2g}" if share < 0.1 else f"{100 * share:.0f}"


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
    whose = f"the worst node of {best.method}" if others else "the worst node"
    sentence = f"the test accuracy of {whose} is {percent(fmean(own))}"
    rivals = {line.method: values for line in others if (values := line.finals(key))}
    if not rivals:
        return sentence
    top = max(rivals, key=lambda method: fmean(rivals[method]))
    values = rivals[top]
    overlap = len(own) > 1 and min(values) <= max(own) and min(own) <= max(values)
    if fmean(values) > fmean(own):
        return f"{sentence}, below {top} with {percent(fmean(values))}" + (f", {WITHIN}" if overlap else "")
    return f"{sentence}, the highest" + (f", but {WITHIN}" if overlap else "")


def _against(best: MethodRuns, reference: MethodRuns, target: float | None, pairs: int) -> str:
    """The leader beside centralized SGD, which has all data in one place."""
    said = f"centralized {reference.method.upper()} reached {with_spread(reference.loss, reference.spread)}"
    if len(best.losses) >= ENOUGH and not best.edge and not reference.edge:
        found = difference(reference, best, pairs)
        said += {
            "lower": f", {_share(found)} lower",
            "higher": f", {_share(found)} higher",
            "equal": f", equal within {MARGIN}",
            "too few seeds": ", and the seeds are too few to tell them apart",
        }[found.judgement]
    if target is None:
        return said
    own, theirs = (line.at_target(target, "virtual_seconds") for line in (best, reference))
    if not own or not theirs or short(theirs / own, 2) == "1":
        return said
    return f"{said}, and took {short(theirs / own, 2)} times as long on the virtual clock to a loss of {short(target)}"


def _named(lines: Sequence[MethodRuns], best: MethodRuns) -> str:
    """With the loss, and the weights where they are not those of the best: the difference may be theirs."""
    other = {line.method: f", with {line.weights} weights" * (line.weights != best.weights) for line in lines}
    return listed(f"{line.method} ({short(line.loss)}{other[line.method]})" for line in lines)
