"""Batches on uneven shards: in proportion to a node's samples, as the paper asks, or the same for all.

Equal batches are right too where a node's gradient counts for its share of the samples, and noisier. Plain means of
equal batches, what an ordinary training script computes, minimise another function: the mean over the *nodes*.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import torch
from matplotlib.figure import Figure
from torch import Tensor

from dsgt.algorithms import DSGT
from dsgt.data import Full, WithReplacement, digits, partition
from dsgt.data.sampling import Sampling
from dsgt.problems import Logistic
from dsgt.reproduce import style
from dsgt.reproduce.cases import Row
from dsgt.reproduce.lab import Experiment, Lab, Plan, Tables
from dsgt.reproduce.training_run import weights
from dsgt.run import iterate
from dsgt.threads import threads

NODES, BATCH, LR, L2 = 12, 240, 0.5, 1e-2
WAYS = {
    "proportional batches": "#0072B2",
    "equal batches, right weights": "#009E73",
    "equal batches, plain means": "#D55E00",
}


@dataclass(frozen=True)
class Uneven:
    """DSGT on the digits, nodes with different labels and different numbers of samples."""

    way: str
    exact: bool
    """Exact gradients, which show where a method goes, or drawn ones, which show the noise."""
    seed: int
    rounds: int

    def __call__(self) -> list[Row]:
        with threads(1):
            return self._rows()

    def _rows(self) -> list[Row]:
        problem = uneven(self.way, exact=self.exact)
        oracle, share = problem.oracle(self.seed), problem.weights[:, None]
        plain = self.way.endswith("plain means")

        def gradient(x: Tensor, k: int) -> Tensor:
            g = oracle(x, k)
            return (g - L2 * x) / share + L2 * x if plain else g

        states = iterate(DSGT(), gradient, weights("fdla", NODES), problem.start(0), LR)
        best = optimum()
        low, rows = float(problem.loss(best)), []
        slowest = float(problem.batch.max())
        for k, state in enumerate(islice(states, self.rounds + 1)):
            if k % max(1, self.rounds // 100) == 0:
                mean = state.x.mean(dim=0)
                gap, far = float(problem.loss(mean)) - low, float((mean - best).norm())
                rows.append({"round": k, "gap": gap, "distance": far, "slowest_batch": slowest})
        return rows


@lru_cache(maxsize=1)
def optimum() -> Tensor:
    """The same for all ways to draw: it belongs to the samples."""
    best = uneven("proportional batches", exact=True).optimum
    assert best is not None
    return best


def uneven(way: str, *, exact: bool) -> Logistic:
    train, test = digits(dtype=torch.float64)
    shards = partition.dirichlet(train.targets, NODES, alpha=0.5, seed=0)
    equal = [min(BATCH // NODES, int(size)) for size in shards.sizes]
    sampling: Sampling = WithReplacement(batch=BATCH if way.startswith("proportional") else equal)
    return Logistic(train, shards, Full() if exact else sampling, test=test, l2=L2)


@dataclass(frozen=True)
class Rounds(Plan):
    rounds: int = 3000


FULL = Rounds(seeds=5, rounds=6000)
QUICK = Rounds(seeds=2, rounds=3000)


def measure(lab: Lab, plan: Rounds) -> Tables:
    exact = [Uneven(way, True, 0, plan.rounds) for way in WAYS]
    drawn = [Uneven(way, False, seed, plan.rounds) for way in WAYS for seed in range(plan.seeds)]
    return {"exact": lab.table(exact), "drawn": lab.table(drawn)}


def figure(tables: Tables, plan: Rounds) -> Figure:
    picture, (a, b) = style.panels(1, 2, width=4.0)
    for axes, name, title in ((a, "exact", "(a) exact gradients"), (b, "drawn", f"(b) {BATCH} samples a round")):
        for way, colour in WAYS.items():
            some = tables[name][tables[name]["way"] == way]
            same = name == "exact" and way == "equal batches, right weights"
            style.band(axes, some, "round", "gap", colour=colour, label=way, line="--" if same else "-")
        axes.set(xlabel="round", ylabel="excess loss F(x̄) − F*", yscale="log", title=title)
    a.set_ylim(bottom=1e-16)  # below is rounding
    b.legend()
    picture.suptitle(f"DSGT on digits, {NODES} uneven nodes (Dirichlet 0.5)")
    return picture


def findings(tables: Tables, plan: Rounds) -> list[str]:
    said = []
    for name, table in tables.items():
        late = table[table["round"] > 0.8 * plan.rounds].groupby("way", sort=False)
        for way, gap in late["gap"].mean().items():
            said.append(f"{name} gradients, {way}: excess loss {gap:.1e} at the end")
    slow = tables["drawn"].groupby("way", sort=False)["slowest_batch"].first()
    said.append(
        f"The slowest node computes {slow['proportional batches']:.0f} samples a round with proportional batches, "
        f"{slow['equal batches, right weights']:.0f} with equal ones: that is how much longer its rounds take."
    )
    return said


EXPERIMENT = Experiment(
    claim="Batches in proportion to the shards make uneven nodes minimise the true empirical risk",
    full=FULL,
    quick=QUICK,
    measure=measure,
    figure=figure,
    findings=findings,
)
