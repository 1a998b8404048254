"""What the nodes learn from: data sets, who holds what, and what is drawn."""

from dsgt.data import partition, sampling, synthetic
from dsgt.data.cifar10 import cifar10
from dsgt.data.digits import digits
from dsgt.data.label_counts import counts, picture
from dsgt.data.samples import Samples
from dsgt.data.sampling import Bernoulli, Full, WithoutReplacement, WithReplacement
from dsgt.data.shards import Shards

__all__ = [
    "Bernoulli",
    "Full",
    "Samples",
    "Shards",
    "WithReplacement",
    "WithoutReplacement",
    "cifar10",
    "counts",
    "digits",
    "partition",
    "picture",
    "sampling",
    "synthetic",
]
