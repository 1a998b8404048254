"""What was found, in two sentences that claim no more than the seeds allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from dsgt.comparison.method_runs import MethodRuns, final_losses
from dsgt.comparison.paired import EQUAL, LEVEL, Difference, comparisons, difference, judged
from dsgt.text import listed, percent, short, with_spread

MOST = 4
"""Methods that a sentence names one by one; of more, these and how many others."""
MARGIN = f"{100 * EQUAL:g} %"
RULE = (
    "Methods are compared seed by seed, on the same shards. One is called lower than another when the paired t "
    f"interval of the mean ratio of their losses lies below 1, and equal when it lies within {MARGIN} of 1; otherwise "
    "the seeds are too few to tell. A test accuracy is above another when the interval of their mean difference is "
    f"above 0. For each of these the intervals of all pairs of methods hold together with {100 * LEVEL:g} % "
    "(Bonferroni). Nothing is judged while a best learning rate is the largest or the smallest that was tried."
)


def verdict(lines: Sequence[MethodRuns], target: float | None = None) -> tuple[str, str]:
    """Who reached the lowest loss; how accurate it and its worst node are, how it compares with centralized SGD, and
    what diverged."""
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
    pairs = comparisons(lines) if judged(lines) else None
    against = [_against(best, line, target, pairs) for line in reference]
    parts = [*_accuracies(best, others, pairs), *against, *_diverged(lines)]
    nothing = "no run diverged" if others else "there is no other method to compare with"
    second = "; ".join(parts) or nothing
    edge = [line for line in finished if line.edge] if others or reference else []
    first = _no_verdict(edge) if edge else _lowest_loss(best, others, pairs)
    return first, f"{second[0].upper()}{second[1:]}."


def _no_verdict(edge: Sequence[MethodRuns]) -> str:
    where = listed(f"{line.method} ({line.lr:g}, the {line.edge})" for line in edge)
    return (
        f"No verdict, because the best learning rate lies at the edge of those tried for {where}: try more of them, "
        "with --lr or a larger --grow."
    )


def _lowest_loss(best: MethodRuns, others: Sequence[MethodRuns], pairs: int | None) -> str:
    seeds = len(best.losses)
    loss = f"{with_spread(best.loss, best.spread)}" + (f" over {seeds} seeds" if seeds > 1 else "")
    if not others:
        return f"{best.method} reached a training loss of {loss} with a learning rate of {best.lr:g}."
    lowest = f"{best.method} reached the lowest training loss, {loss}"
    if pairs is None:
        few = "one seed" if seeds == 1 else f"{seeds} seeds"
        return f"{lowest}, before {_named(others, best)}; with {few} nobody can tell the differences from chance."
    found = {line.method: difference(best.losses, line.losses, pairs) for line in others}

    def called(word: str) -> list[MethodRuns]:
        return [line for line in others if found[line.method].judgement == word]

    lower, equal, unclear = called("lower"), called("equal"), called("too few seeds") + called("higher")
    if len(equal) == len(others):
        return f"{best.method} reached a training loss of {loss}, equal to {_named(equal, best)} within {MARGIN}."
    parts = [f"{_share(found[line.method])} below {_named([line], best)}" for line in lower[:MOST]]
    if further := lower[MOST:]:
        parts.append(f"below {_others(further)} too")
    if equal:
        parts.append(f"equal to {_named(equal, best)} within {MARGIN}")
    if unclear:
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


def _accuracies(best: MethodRuns, others: Sequence[MethodRuns], pairs: int | None) -> list[str]:
    """The test accuracies of the leader's mean model and of its worst node, and whose are lower or higher."""
    whose = f" of {best.method}" * bool(others)
    return [
        f"the test accuracy of the {model}{whose} is {percent(fmean(own))}{_beside(best, others, key, pairs)}"
        for key, model in (("accuracy", "mean model"), ("node_accuracy_min", "worst node"))
        if (own := best.finals(key))
    ]


def _beside(best: MethodRuns, others: Sequence[MethodRuns], key: str, pairs: int | None) -> str:
    """``, above dpsgd and not told from d2``"""
    if pairs is None:
        return ""
    sides: dict[str, list[MethodRuns]] = {"above": [], "below": [], "not told from": []}
    for line in others:
        if values := line.finals(key):
            found = difference(best.finals(key), values, pairs, shares=False)
            sides["above" if found.low > 0 else "below" if found.high < 0 else "not told from"].append(line)
    words = [f"{side} {_names(some, best)}" for side, some in sides.items() if some]
    return f", {listed(words)}" if words else ""


def _against(best: MethodRuns, reference: MethodRuns, target: float | None, pairs: int | None) -> str:
    """The leader beside centralized SGD, which has all data in one place."""
    said = f"{_centralized(reference)} reached {with_spread(reference.loss, reference.spread)}"
    if pairs is None:
        return said
    found = difference(reference.losses, best.losses, pairs)
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


def _centralized(reference: MethodRuns) -> str:
    """By the name that one types, or by its title, which begins so."""
    name = reference.method
    return name if name.startswith("centralized") else f"centralized {name.upper() if name.islower() else name}"


def _named(lines: Sequence[MethodRuns], best: MethodRuns) -> str:
    """With the loss, and the weights where they are not those of the best: the difference may be theirs."""
    return few([f"{line.method} ({short(line.loss)}{_weights(line, best, ', ')})" for line in lines])


def _names(lines: Sequence[MethodRuns], best: MethodRuns) -> str:
    """Without the loss."""
    return few([f"{line.method}{_weights(line, best, ' ')}" for line in lines])


def _weights(line: MethodRuns, best: MethodRuns, before: str) -> str:
    return f"{before}with {line.weights} weights" * (line.weights != best.weights)


def few(names: Sequence[str], most: int = MOST) -> str:
    """One by one; of many, so many and how many others."""
    return listed(names if len(names) <= most + 1 else [*names[:most], _others(names[most:])])


def _others(some: Sequence[object]) -> str:
    return f"{len(some)} other{'s' * (len(some) > 1)}"
