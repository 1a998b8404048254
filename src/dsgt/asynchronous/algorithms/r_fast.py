"""R-FAST: ASY-SONATA over two spanning trees with one root, and with stochastic gradients.

    z+ = z + taken + g - g_old
    z  = P z+,  the rest is given to the neighbours
    x  = A (x - lr z)

Messages need not get both ways between all nodes: models go from a root outwards along one tree, trackers along another
one inwards, ``topologies.spanning_trees(graph)``, so that a node sends to a few only. The root keeps all that it is
given and steps by the sum, so that the best lr is 1/n of that over other weights, and the others follow.
sum(z) + what is under way = sum(g) at every moment, and over other weights it is ASY-SONATA. The order of the steps is
that of ASY-SONATA, as the abstract of R-FAST describes it.
Guarantee: a neighbourhood of the optimum at a linear rate on smooth strongly convex functions with stochastic gradients
and bounded delays, whatever the speeds of the nodes; the optimum with exact ones (Zhu et al., 2023).
Zhu, Tian, Huang, Xu and He, R-FAST: robust fully-asynchronous stochastic gradient tracking over general topology, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dsgt.asynchronous.algorithms.asy_sonata import AsySONATA
from dsgt.core import Needs


@dataclass(frozen=True)
class RFAST(AsySONATA):
    needs: ClassVar[Needs] = Needs(
        columns=False, static=True, rooted=True, push=Needs(rows=False, static=True, rooted=True)
    )
