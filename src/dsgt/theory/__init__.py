"""The paper's theorems as tools: which step, which bound, does the network matter, what does another node bring."""

from dsgt.theory.advise import Advice, advise
from dsgt.theory.bounds import Bound, Tuned, corollary_1, corollary_2, diminishing, theorem_1, theorem_2
from dsgt.theory.centralized import Comparison, given_shards, given_union
from dsgt.theory.constants import Constants, paper_step
from dsgt.theory.diverged import explain
from dsgt.theory.draws import Sampled
from dsgt.theory.estimate import Estimate, estimate
from dsgt.theory.independence import Independence, independence, typical_ratio
from dsgt.theory.linear import (
    Linear,
    polyak_lojasiewicz,
    polyak_lojasiewicz_step,
    strongly_convex,
    strongly_convex_step,
)
from dsgt.theory.plan import Plan, plan
from dsgt.theory.speedup import Link, Speedup, speedup
from dsgt.theory.stability import Window, window
from dsgt.theory.usable import usable

__all__ = [
    "Advice",
    "Bound",
    "Comparison",
    "Constants",
    "Estimate",
    "Independence",
    "Linear",
    "Link",
    "Plan",
    "Sampled",
    "Speedup",
    "Tuned",
    "Window",
    "advise",
    "corollary_1",
    "corollary_2",
    "diminishing",
    "estimate",
    "explain",
    "given_shards",
    "given_union",
    "independence",
    "paper_step",
    "plan",
    "polyak_lojasiewicz",
    "polyak_lojasiewicz_step",
    "speedup",
    "strongly_convex",
    "strongly_convex_step",
    "theorem_1",
    "theorem_2",
    "typical_ratio",
    "usable",
    "window",
]
