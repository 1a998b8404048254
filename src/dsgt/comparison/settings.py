"""Everything that determines a comparison: what a person said of it, and what that stands for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from dsgt import topologies
from dsgt.algorithms.named import is_ours
from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.asynchronous.named import method
from dsgt.comparison.budget import Budget
from dsgt.comparison.fields import OWN, SEEDS_LIMIT, Fields
from dsgt.comparison.own import GIVEN, alike, graph_of, sample_of, schedule_text, text_of
from dsgt.comparison.rehearsal import rehearse
from dsgt.core import Algorithm, Gradient, Network, Weights, without_oracle
from dsgt.data.augment import AUGMENTATIONS
from dsgt.data.names import own_partition
from dsgt.factories import Factory, lookup
from dsgt.networks.agreement import together
from dsgt.networks.clocked import Clocked
from dsgt.networks.compute_times import named_times, slowed
from dsgt.networks.link import Compute
from dsgt.oracles import Momentum
from dsgt.problems.base import Problem
from dsgt.problems.erm import EmpiricalRisk
from dsgt.problems.named import data_source, loads_parts, named_model, named_problem, spread_problem
from dsgt.randomness import all_seeded
from dsgt.schedules import named_schedule
from dsgt.source import source
from dsgt.text import listed
from dsgt.topologies.changing import Fixed, as_weights
from dsgt.topologies.names import CYCLES
from dsgt.topologies.needs import complaints
from dsgt.topologies.usable import usable_weights

if TYPE_CHECKING:
    import networkx as nx


class Settings(Fields):
    """Everything that determines a comparison."""

    def algorithm(self, name: str) -> Algorithm[Any] | AsyncAlgorithm[Any]:
        """One of the methods."""
        made = self._objects.methods.get(name) or method(name)
        if isinstance(made, AsyncAlgorithm):
            if self.momentum or self._objects.schedule is not None or self.schedule != "constant":
                raise ValueError(
                    f"momentum is {self.momentum:g} and schedule {self.schedule}, but nodes of {name} wait for nobody "
                    "and take one learning rate; leave both out"
                )
            return made
        return made.asking(Momentum(self.momentum)) if self.momentum else made

    def rate(self, lr: float, rounds: int) -> float | Callable[[int], float]:
        """The learning rate of every round."""
        return named_schedule(self._objects.schedule or self.schedule)(lr, rounds)

    def every(self, rounds: int) -> tuple[int, int]:
        """Every how many rounds a run of so many is measured, and every how many on the test samples too."""
        every = -(-rounds // self.evaluations)  # rounded up: the last one is not close to the one before it
        return every, every * max(1, self.evaluations // self.tests)

    def with_rounds(self, name: str) -> Algorithm[Any]:
        """One of the methods, where it must have rounds."""
        made = self.algorithm(name)
        if isinstance(made, AsyncAlgorithm):
            raise ValueError(f"{name} waits for nobody, so it has no rounds; give a method that has")
        return made

    def problem(self, seed: int) -> Problem:
        """The data, the shards drawn with this seed, the model."""
        made = self._problem(seed)
        self._check_repeats(made, seed)
        if self.eval_samples is None:
            return made
        if not isinstance(made, EmpiricalRisk):
            raise ValueError(f"eval_samples is {self.eval_samples}, but {type(made).__name__} has no samples to choose")
        return made.measured_on(self.eval_samples)

    def _problem(self, seed: int) -> Problem:
        validation = self.validation if seed >= SEEDS_LIMIT else 0.0
        if self._objects.problem is not None:
            if validation:
                raise ValueError(
                    f"validation is {validation:g}, but only data that are given by themselves can be held out; give "
                    "data= and model= in the place of problem=, or leave it out"
                )
            with all_seeded(seed):
                made: Problem = self._objects.problem.make(Problem, seed=seed)
            return made
        return named_problem(
            self._objects.data or self.data,
            self._objects.model or self.model,
            nodes=self.nodes,
            partition=self._objects.partition or self.partition,
            batch=self.batch,
            seed=seed,
            root=self.data_dir,
            validation=validation,
            **self._how,
        )

    def _check_repeats(self, made: Problem, seed: int) -> None:
        """A ValueError where one's own code makes other numbers than before: runs would not be of one problem."""
        if not (own := _own_code(self)):
            return
        now = sample_of(made, seed)
        if not alike(now, self._objects.samples.setdefault(seed, now)):
            named = listed(f"the {f.what} {f.text!r}" for f in own)
            raise ValueError(
                f"{named} {'gives' if len(own) == 1 else 'give'} other numbers each time: let it draw from torch's, "
                "NumPy's or Python's own streams, which are seeded, or from a generator with a seed of its own"
            )

    @property
    def _how(self) -> dict[str, Any]:
        augment, dtype = self._objects.augment or self.augment, getattr(torch, self.dtype)
        return {"l2": self.weight_decay, "augment": augment, "statistics": self.statistics, "dtype": dtype}

    def problem_at(self, seed: int, network: Network) -> Problem:
        """The same for a network whose nodes call this at once: a real node loads no more data than it must."""
        if network.node is None or not loads_parts(self._objects.data or self.data):
            return together(network, lambda: self.problem(seed))
        given, model = self._objects.data or self.data, self._objects.model or self.model
        made = spread_problem(given, model, network, batch=self.batch, seed=seed, **self._how)
        return made if self.eval_samples is None else made.measured_on(self.eval_samples)

    def own_text(self, method: str, seed: int) -> list[str]:
        """What stands for the method, the problem of a seed and the schedule, where they are not this package's. The
        weights say all of the graph."""
        schedule = schedule_text(self._objects.schedule or self.schedule)
        return [source(self.algorithm(method)), _problem_text(self, seed), schedule]

    @property
    def ends(self) -> Budget:
        """How much each run may use."""
        return Budget(self.epochs, "epochs") if self.budget is None else Budget.of(self.budget)

    def check_method(self, method: str) -> None:
        """A ValueError if its weights cannot be made, or if it is a person's own and cannot do a round."""
        weights, _ = self.weights_for(method)
        algorithm = self.algorithm(method)
        if isinstance(algorithm, Algorithm) and not is_ours(without_oracle(algorithm)):
            rehearse(method, algorithm, weights)

    def check_oracle(self, problem: Problem, method: str, node: int | None = None) -> None:
        """A ValueError if the problem, or a real node's part of it, cannot answer what the method's oracle asks, its
        table is too large, or the method cannot be fitted to it."""
        algorithm = self.algorithm(method)
        if not isinstance(algorithm, Algorithm) or type(algorithm.asks) is Gradient:
            return
        oracle, x = algorithm.asks, problem.start(0)
        try:
            if node is None:
                oracle.check(f := problem.local(0), x.expand(problem.nodes, -1))
                algorithm.fitted(algorithm.over(self.network(method, problem)), f)
            else:
                oracle.check(problem[node].local(0), x)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{method}: {error}") from None

    def check_budget(self, problem: Problem, method: str, seed: int) -> None:
        """A ValueError if it is not enough for a round of the run with this seed."""
        algorithm = self.algorithm(method)
        if isinstance(algorithm, AsyncAlgorithm):
            if self.ends.unit != "s":
                raise ValueError(
                    f"the budget is {self.ends}, but {method} has no rounds: give it in virtual seconds, as in 60s"
                )
        else:
            self.ends.check(algorithm, problem, lambda: self.network(method, problem, seed))

    def rounds(self, problem: Problem, method: str, seed: int = 0) -> int:
        """How many the budget allows this method."""
        return self.ends.rounds(self.with_rounds(method), problem, lambda: self.network(method, problem, seed))

    def weights_for(self, method: str) -> tuple[Weights, str]:
        """The weights of the file or the rule, or the nearest that the method may use, and what they are."""
        if self._objects.W is None:
            graph = self._objects.graph or self.graph
            return usable_weights(method, self.algorithm(method).needs, graph, self.nodes, self.weights)
        if self.algorithm(method).needs.average:
            return Fixed(topologies.averaging(self.nodes)), "all"
        given = as_weights(self._objects.W, all_reduce=False)
        if why := complaints(self.algorithm(method).needs, given):
            raise ValueError(f"{method} {why[0]}")
        return given, GIVEN

    def network(self, method: str, problem: Problem, seed: int = 0) -> Clocked:
        """The method's weights, and the virtual clock: a node computes for its own part of the batch. Who is slow when
        is drawn from the seed, the same for all methods."""
        W, _ = self.weights_for(method)
        even = [problem.epochs_per_round * problem.samples / problem.nodes] * problem.nodes
        drawn = problem.batch.tolist() if isinstance(problem, EmpiricalRisk) else even
        seconds: Compute = [self.compute * b for b in drawn]
        if self.stragglers.startswith("trace:"):
            seconds = named_times(self.stragglers, nodes=self.nodes, mean=1.0, seed=seed)
        elif self.stragglers != "none":
            times = named_times(self.stragglers, nodes=self.nodes, mean=1.0, seed=seed)
            seconds = slowed(times, dict(enumerate(self.compute * b for b in drawn)), nodes=self.nodes)
        return Clocked(W, compute=seconds, latency=self.latency, bandwidth=self.bandwidth, seed=seed)

    def graph_drawn(self) -> nx.Graph[int]:
        """Who hears whom: the graph by its name, or who has a weight in a matrix that was given."""
        if self._objects.W is not None:
            return graph_of(self._objects.W)
        if (graph := self._objects.graph) is None and self.graph in CYCLES:
            return graph_of(*CYCLES[self.graph](self.nodes))
        return topologies.named_network(graph or self.graph, self.nodes).graph


@lru_cache(maxsize=256)
def _problem_text(settings: Settings, seed: int) -> str:
    """Empty for this package's own, which the settings and the text of the package say all about."""
    objects, own = settings._objects, _own_code(settings)
    named = (settings.augment or "").partition(":")[0]
    if objects.problem is None and (objects.augment is not None or named not in ("", *AUGMENTATIONS)):
        own.append(objects.augment or lookup(settings.augment or "", "augmentation"))
    return text_of(settings.problem(seed), seed, *own) if own else ""


def _own_code(settings: Settings) -> list[Factory]:
    """By which the problem is made."""
    objects = settings._objects
    made_by: list[object] = [objects.problem]
    if objects.problem is None:
        made_by = [data_source(objects.data or settings.data), named_model(objects.model or settings.model)]
        if settings.partition != OWN:
            made_by.append(own_partition(objects.partition or settings.partition))
    return [f for f in made_by if isinstance(f, Factory)]
