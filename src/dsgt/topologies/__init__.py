from dsgt.topologies.graphs import ring
from dsgt.topologies.weights import averaging, metropolis

__all__ = ["averaging", "metropolis", "ring"]
