"""A problem with constraints: the method that solves it, made of the problem's own values and the nodes' sets."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dsgt.algorithms.epigraph_projection import EpigraphProjection
from dsgt.constraints import ConvexSet, feasible_point
from dsgt.problems.erm import EmpiricalRisk


def constrained(
    problem: EmpiricalRisk,
    sets: Sequence[ConvexSet] | Sequence[Sequence[ConvexSet]],
    *,
    beta: float = 1.0,
    seed: int = 0,
) -> EpigraphProjection:
    """The method that minimises the problem's loss over the models that lie in all sets.

    ``sets`` are known to every node, or there is a list for each node, which it alone knows. Run it on
    ``problem.full()``, whose gradients are exact, over any weights whose rows sum to 1, with a learning rate such as
    ``(k + 1) ** -0.7``.
    """
    common = [one for one in sets if isinstance(one, ConvexSet)]
    each = [common] * problem.nodes if common or not sets else [list(own) for own in sets]  # type: ignore[arg-type]
    if len(each) != problem.nodes or (common and len(common) != len(sets)):
        raise ValueError(
            f"constrained was given {len(sets)} lists of sets for {problem.nodes} nodes; expected one list for each "
            "node, or one list of sets that all of them know"
        )
    feasible_point([one for own in each for one in own], problem.dim)
    nodes = [problem[i] for i in range(problem.nodes)]
    weights: list[float] = problem.weights.tolist()

    def value(i: int, x: Tensor) -> Tensor:
        """Of what the oracle gives the gradient of: the samples weigh n N_i / N, the penalty 1."""
        samples, penalty = nodes[i].loss(x), problem.l2 / 2 * x.square().sum()
        return samples * weights[i] + penalty * (1 - weights[i])

    return EpigraphProjection(value, tuple(map(tuple, each)), beta, seed)
