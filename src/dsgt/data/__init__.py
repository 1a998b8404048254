"""What the nodes learn from: data sets, who holds what, and what is drawn."""

from dsgt.data import augment, partition, sampling, synthetic
from dsgt.data.cifar import cifar10, cifar100
from dsgt.data.digits import digits
from dsgt.data.femnist import femnist
from dsgt.data.label_counts import counts, picture
from dsgt.data.mnist import fashion_mnist, mnist
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
    "augment",
    "cifar10",
    "cifar100",
    "counts",
    "digits",
    "fashion_mnist",
    "femnist",
    "mnist",
    "partition",
    "picture",
    "sampling",
    "synthetic",
]
