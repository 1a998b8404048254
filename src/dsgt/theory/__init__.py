"""The paper's theorems as tools: which step, which bound, does the network matter, what does another node bring."""

from dsgt.theory.advise import Advice, advise
from dsgt.theory.bounds import Bound, Tuned, corollary_1, corollary_2, diminishing, theorem_1, theorem_2
from dsgt.theory.constants import Constants, paper_step
from dsgt.theory.estimate import Estimate, Sampled, estimate
from dsgt.theory.independence import Independence, independence, typical_ratio
from dsgt.theory.speedup import Link, Speedup, speedup

__all__ = [
    "Advice",
    "Bound",
    "Constants",
    "Estimate",
    "Independence",
    "Link",
    "Sampled",
    "Speedup",
    "Tuned",
    "advise",
    "corollary_1",
    "corollary_2",
    "diminishing",
    "estimate",
    "independence",
    "paper_step",
    "speedup",
    "theorem_1",
    "theorem_2",
    "typical_ratio",
]
