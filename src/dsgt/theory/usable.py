"""Which methods may use a weight matrix."""

from __future__ import annotations

from dsgt.algorithms import ALGORITHMS
from dsgt.core import Needs
from dsgt.topologies.changing import as_weights
from dsgt.topologies.matrix import MatrixLike, as_matrix
from dsgt.topologies.needs import complaints


def usable(W: MatrixLike) -> dict[str, str]:
    """Every method by name: empty where it may use W, else why not and what to do."""
    matrix = as_matrix(W)
    said: dict[Needs, str] = {}  # many methods need the same, and eigenvalues of a large W are costly
    found = {}
    for name, method in ALGORITHMS.items():
        try:
            needs = method().needs
        except Exception as error:  # of a method of the user's, which must not cost the others' answers
            found[name] = f"cannot be made without parameters: {error}"
            continue
        if needs not in said:
            said[needs] = "; ".join(complaints(needs, as_weights(matrix)))
        found[name] = said[needs]
    return found
