"""This process's node of a network, as a torch.optim.Optimizer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from dsgt import engine
from dsgt.checkpoint import fingerprint
from dsgt.core import Algorithm, Gradient, Network, Oracle, restart_tracking, tensors, with_tensors
from dsgt.divergence import changed_lr, check_gradient
from dsgt.engine.allocator import give_back
from dsgt.engine.questions import Questions
from dsgt.flat import flattened, views
from dsgt.networks.agreement import any_node
from dsgt.networks.flights import land_carriers
from dsgt.networks.inside import Processes
from dsgt.networks.torchdist import TorchTransport
from dsgt.networks.transport import Transport
from dsgt.optim.agreement import agree, common_start, same_inside, versions
from dsgt.optim.batch_norm import recalibrate_batch_norm
from dsgt.optim.closures import Closure, Closures, check_oracle
from dsgt.optim.epoch import epoch
from dsgt.optim.groups import Groups
from dsgt.optim.guards import EqualGradients, refuse_ddp
from dsgt.optim.moves import Clipped, InnerMoves, defaults
from dsgt.optim.parameters import Parameters
from dsgt.optim.saved import SAVE_APART, blank, read, tables
from dsgt.topologies.needs import check

AGREE_EVERY = 100
"""Steps after which the nodes compare their learning rates again."""
GIVE_BACK_EVERY = 4
"""Steps after which gaps between a script's own tensors are given back to the kernel; after each of the first ones."""
WORTH_GIVING_BACK = 2 << 20
"""Bytes of a model whose gaps matter more than the page faults of giving them back."""


class Optimizer(torch.optim.Optimizer):
    """This process's node of the network, training its copy of the model on its own data.

    ``lr`` is the learning rate of centralized SGD on all data together. ``samples`` is the size of this node's data
    set: with it, nodes of different sizes minimise the mean loss over all samples, provided the loss is the mean over
    a batch drawn from the local data; without it, every node counts the same. ``weight_decay`` is added to the
    gradient before it is tracked. Parameter groups may have an lr and a weight_decay of their own.

    ``DSGT(inner=Inner(torch.optim.AdamW))`` moves the model by an optimizer of torch's that is given y as gradient;
    weight_decay is then that optimizer's, if it has one. ``clip`` shortens a step where the norm of y is above it: y
    estimates the global gradient, so no node needs to ask the others. torch's own ``clip_grad_norm_`` clips the node's
    gradient before it is tracked.

    ``start`` says which model all nodes begin with: that of "node 0" (as torch's DistributedDataParallel does), the
    "mean", or each its "own". ``unused="zero"`` accepts parameters without a gradient in a step. ``uncoordinated=True``
    allows every node an lr of its own, for methods that stay exact so.

    ``inside`` is a process group of torch.distributed, or a ``Transport``, whose processes together are this node, such
    as those of one machine's GPUs: they average their gradients among themselves and hold the same model, process r
    mixing with process r of other nodes. ``samples`` is then the size of the whole node's data set.

    ``oracle``, such as ``STORM(0.1)``, evaluates gradients itself, at two points of a batch: give ``step`` a closure.

    Parameters are parts of one flat vector, so a mixing is one message. Parameters in half precision keep a float32
    master copy, and everything the method remembers is float32.
    """

    _step_supports_amp_scaling = True  # a GradScaler then calls step() also where it has found infinities

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]],
        algorithm: Algorithm[Any],
        network: Network,
        lr: float,
        weight_decay: float | None = None,
        samples: int | None = None,
        *,
        clip: float | None = None,
        start: str = "node 0",
        unused: str = "error",
        uncoordinated: bool = False,
        inside: Any = None,
        oracle: Oracle[Any] | None = None,
    ) -> None:
        if network.node is None:
            raise ValueError(
                f"{type(network).__name__} holds all nodes, but an Optimizer trains the one node of this process: use "
                "networks.TorchPeers under torchrun or networks.MPIPeers under mpiexec, or dsgt.run to simulate"
            )
        algorithm = algorithm if oracle is None else algorithm.asking(oracle)
        check_oracle(algorithm)
        network = algorithm.over(network)
        check(type(algorithm).__name__, algorithm.needs, network.weights)
        if uncoordinated and not algorithm.uncoordinated:
            raise ValueError(
                f"uncoordinated=True was given, but {type(algorithm).__name__} reaches the optimum only where all "
                "nodes have one lr; use DSGT or AugDGM"
            )
        if clip is not None and not (clip > 0 and algorithm.uncoordinated):
            raise ValueError(
                f"clip is {clip} for {type(algorithm).__name__}; expected a norm above 0, and DSGT or AugDGM, which "
                "stay exact where the nodes' steps differ; torch.nn.utils.clip_grad_norm_ works with every method"
            )
        self.network = network
        self.round, self._clip = 0, clip
        given = list(params)
        if not given:
            raise ValueError("0 parameters were given; give model.parameters()")
        self.algorithm = self._given = algorithm
        options = defaults(algorithm.inner)
        chosen = {} if weight_decay is None else {"weight_decay": weight_decay}
        method = {"method": self._identity()["algorithm"]}
        super().__init__(given, {"lr": lr, "weight_decay": 0.0, **options, **chosen, **method})  # type: ignore[arg-type]
        self._rate: float | None = None
        self._groups = Groups(self.param_groups, decay_inside="weight_decay" in options)
        self._parameters = Parameters(self._groups.trained, unused=unused)
        self._given = algorithm.shaped([tuple(p.shape) for _, p in self._groups.trained])
        self._closures = Closures(self._evaluated, network.node)
        self.algorithm = algorithm = self._given.fitted(network, self._closures)
        self._uncoordinated = uncoordinated
        self._inside = None if inside is None else Processes(network, _transport(inside))
        self.everyone: Network = self._inside or network
        """All processes, each with a number of its own: the network itself, unless several of them make one node."""
        agree(self.everyone, self._facts())
        if self._inside is not None:
            same_inside(self._inside, "samples (the size of the node's data set; 0: none given)", samples or 0)
        self._weight = _weight(network, samples)
        if algorithm.equal_starts and start == "own":
            raise ValueError(
                f"start is 'own', but {type(algorithm).__name__} needs equal models; use 'node 0' or 'mean'"
            )
        common_start(self.everyone, self._parameters.vector, start)
        self._state: Any = None
        self._unfinished = False
        self._equal_gradients = EqualGradients()
        self._seen: float | None = None
        self._update = engine.Updates(algorithm, network, keep_x=True)
        self._inner = None if algorithm.inner is None else InnerMoves(algorithm.inner, self._groups, self._master())
        self._questions: Questions | None = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._parameters.clear(to_none=set_to_none)

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Callable[[], float] | None = None, *, full: Callable[[], float] | None = None
    ) -> float | None:
        """One round: mix with the neighbours and move. An oracle calls the closure itself, more than once where it asks
        at several points; ``full`` is a second one, for all of the node's samples, where the oracle asks for these."""
        loss, plain = None, type(self.algorithm.asks) is Gradient
        if closure is not None and plain:
            with torch.enable_grad():
                loss = closure()
        self._check_whole()
        if self._all_skip():
            return loss
        self._parameters.follow()
        x = self._master()
        self._agree_again(x)
        self._check_moved(x)
        if self._state is None:
            self._give_back(x)
            if self.network.nodes > 1:
                refuse_ddp(self._parameters.tensors)
            self._state = self.algorithm.init(self._update.scratch(x).copy_(x), self.network.at(0))._replace(x=x)
        if plain:
            g = self._gradient(x, self._update.scratch(x))
        else:
            g, loss = self._asked(x, closure, full), self._closures.loss
        check_gradient(g, x, self.network, self.round, self._groups.rates[0], self.algorithm.diverges)
        self._equal_gradients.look(self.network, g, self.round)
        self.network.computed(self.round)
        # x is where the parameters live; every other field is the method's own memory, which may be overwritten
        state, self._unfinished = self._state._replace(x=x), True
        self._state = self._update(state, g, self.network.at(self.round), self._moves(x))
        self._unfinished = False
        self._write(self._state.x)
        self._parameters.used()
        self.round += 1
        self._give_back(self._state.x)  # while the gradients are there: the memory that they will have again is kept
        return loss

    def _give_back(self, x: Tensor) -> None:
        often = self.round <= GIVE_BACK_EVERY or self.round % GIVE_BACK_EVERY == 0
        if often and x.nbytes >= WORTH_GIVING_BACK:
            give_back()

    def _asked(self, x: Tensor, closure: Closure | None, full: Closure | None) -> Tensor:
        """What the oracle answers at x."""
        self._closures.begin(closure, full)
        if self._questions is None:
            self._questions = Questions(self.algorithm.asks, self._closures, x)
        return self._questions(x, self.round, self._groups.rates[0])

    def _evaluated(self, closure: Closure, x: Tensor) -> tuple[Any, Tensor]:
        """The closure's loss and gradient at x; the parameters are the same afterwards."""
        vector = self._parameters.vector
        kept = vector.clone()
        vector.copy_(x)
        self._parameters.clear()
        with torch.enable_grad():
            loss = closure()
        g = self._gradient(x, torch.empty_like(x))  # memory of its own: an oracle keeps it
        vector.copy_(kept)
        return loss, g

    def epoch(self, loader: Iterable[Any], *, steps: int | None = None) -> Iterator[Any]:
        """The loader's batches, as many at every node: so many ``steps``, or as many as the longest loader has, a
        shorter one being begun again. All nodes must begin it at once, and take one step a batch."""
        return epoch(self.everyone, loader, steps)

    def restart(self) -> None:
        """Go on from the present parameters with everything else that the method remembers begun anew. All nodes must
        do it after the same step: for models that were loaded, clamped or pruned by hand."""
        self._parameters.follow()
        if self._state is not None:
            state = self._state._replace(x=self._master())
            self._state = restart_tracking(self.algorithm, state, self.network.at(self.round))
            self._write(self._state.x)
        self._unfinished = False

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if hasattr(self, "_groups"):  # torch's own constructor adds the first ones by this door
            raise ValueError("a node takes one step for its whole model; give all parameters to the constructor")
        super().add_param_group(param_group)

    def average(self, model: nn.Module, *, recalibrate: Iterable[Any] | None = None) -> nn.Module:
        """A copy of the model holding the network's mean parameters, for evaluation; training goes on undisturbed.

        Buffers are averaged too: BatchNorm's running means and variances become the means of the nodes', which
        leaves out how far the nodes' means lie apart; counters become rounded means. With ``recalibrate``, batches of
        this node's data, BatchNorm's statistics are those of the mean model on the data of all nodes instead. All
        nodes must call it at once.
        """
        mean, taken = copy.deepcopy(model), self.taken()
        with torch.no_grad():
            for p, copied in zip(model.parameters(), mean.parameters(), strict=True):
                copied.copy_(taken.get(p, p))
            values = [*mean.parameters(), *(b for b in mean.buffers() if b.numel())]
            average = self.everyone.mean(flattened(values, dtype=torch.float64))
            for v, part in zip(values, views(average, values), strict=True):
                v.copy_(part if v.is_floating_point() else part.round())
        if recalibrate is not None:
            recalibrate_batch_norm(mean, recalibrate, self.everyone, self._weight)
        return mean

    def taken(self) -> dict[Tensor, Tensor]:
        """What a user takes home of every trained parameter, where the method promises something of another point than
        the parameters: ``Algorithm.model``. Empty for most methods, and before the first step."""
        model = None if self._state is None else self.algorithm.model(self._state)
        if model is None or model is self._state.x:
            return {}
        parameters = self._parameters.tensors
        return dict(zip(parameters, views(model.to(self._parameters.vector.dtype), parameters), strict=True))

    @property  # type: ignore[override]
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """What the method and an inner optimizer remember, with every parameter in its shape, and the node's number:
        to be read. Waits for this node's messages in flight."""
        if self._unfinished:
            return {}
        made = tables(self._held() or self._blank(), self._numbers(), self._parameters.tensors)
        return dict(zip(self._parameters.tensors, made, strict=True))

    @state.setter
    def state(self, _: Any) -> None:
        """torch's constructor begins with an empty one, and loading is done by ``load_state_dict``."""

    def state_dict(self) -> dict[str, Any]:
        """Complete with the parameters' own state_dict: waits for this node's messages in flight. The tensors stand in
        the entry ``dsgt`` as flat vectors, and in ``state`` as parts of the same memory with every parameter."""
        self._check_whole()
        saved = self.blank_state_dict()
        held = {name: v.clone() for name, v in self._held().items()}
        made = tables(held or self._blank(), self._numbers(), self._parameters.tensors)
        params = [p for group in self.param_groups for p in group["params"]]
        saved["state"] = dict(zip((i for i, p in enumerate(params) if p.requires_grad), made, strict=True))
        saved["dsgt"] |= {"round": self.round, "tensors": held}
        return saved

    def blank_state_dict(self) -> dict[str, Any]:
        """``state_dict`` as it was before the first step, and whatever became of the last one."""
        saved = super().state_dict()
        saved["state"], saved["dsgt"] = {}, {**self._identity(), "round": 0, "tensors": {}}
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on exactly where ``state_dict`` was taken; the parameters are set as well. One that has lost the entry
        ``dsgt`` on its way, as by torch.distributed.checkpoint, is read from ``state``. All nodes must load at once."""
        saved = state_dict.get("dsgt") or read(state_dict, self.param_groups)
        for key, value in self._identity().items():
            if saved[key] != value:
                hint = f". {SAVE_APART}" * (key == "node" and "dsgt" not in state_dict)
                raise ValueError(f"this state_dict was saved with {key} = {saved[key]}, but here it is {value}{hint}")
        vector = self._parameters.vector
        x = saved["tensors"].get("x")
        if x is not None and x.shape != vector.shape:
            raise ValueError(f"this state_dict holds {x.numel()} parameters, but here there are {vector.numel()}")
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        for group in self.param_groups:
            group.setdefault("method", self._identity()["algorithm"])
        self._groups.groups = self.param_groups
        self.round, self._unfinished, self._state, self._seen = saved["round"], False, None, None
        if x is None:
            return
        values = {k: v.to(vector.device, copy=True) for k, v in saved["tensors"].items()}
        inner = {k: values.pop(k) for k in list(values) if k.startswith("inner.")}
        memory = {k.removeprefix("memory."): values.pop(k) for k in list(values) if k.startswith("memory.")}
        self._questions = None
        if memory:
            self._questions = Questions(self.algorithm.asks, self._closures, values["x"])
            self._questions.memory = with_tensors(self._questions.memory, memory)
        if self._inner is not None:
            self._inner.load(inner)
        # a blank state of this method says which fields are messages; its own message, if any, is waited for
        empty = self.algorithm.init(values["x"], self.network.at(self.round))
        tensors(empty)
        self._state = with_tensors(empty, values)
        with torch.no_grad():
            self._parameters.follow()
            self._write(self._state.x)

    def _held(self) -> dict[str, Tensor]:
        """The node's memory itself; nothing before the first step."""
        if self._state is None:
            return {}
        memory = () if self._questions is None else tensors(self._questions.memory).items()
        remembered = {f"memory.{name}": v for name, v in memory}
        return tensors(self._state) | remembered | ({} if self._inner is None else self._inner.tensors())

    def _blank(self) -> dict[str, Tensor]:
        """Names and shapes of what will be held."""
        x = self._master()
        inner = {} if self.algorithm.inner is None else InnerMoves(self.algorithm.inner, self._groups, x).blank()
        memory = tensors(self.algorithm.asks.init(self._closures, torch.zeros_like(x)))
        remembered = {f"memory.{name}": v for name, v in memory.items()}
        return blank(self.algorithm, x, self.network) | remembered | inner

    def _numbers(self) -> dict[str, Any]:
        return {"nodes": self.network.nodes, "node": self.network.node, "round": self.round}

    def _facts(self) -> dict[str, Any]:
        """What must be the same at all nodes."""
        shapes = [(name, tuple(p.shape)) for name, p in self._groups.trained]
        return {
            **versions(),
            "the method": fingerprint.method(self._given, common=True),
            "the dtype": self._parameters.vector.dtype,
            "the number of trained parameters": self._parameters.vector.numel(),
            "the parameters": shapes,
            "the settings of parameter groups": self._groups.settings,
            "clip": self._clip,
            **({} if self._uncoordinated else {"lr": self._groups.rates}),
        }

    def _identity(self) -> dict[str, Any]:
        method = fingerprint.method(self._given).removesuffix("()")
        return {"algorithm": method, "nodes": self.network.nodes, "node": self.network.node}

    def _check_whole(self) -> None:
        if self._unfinished:
            raise RuntimeError(
                f"the step of round {self.round} failed, and what the method remembers may be half overwritten; the "
                "parameters are those before or after it: start again from the last checkpoint, with load_state_dict"
            )

    def _check_moved(self, x: Tensor) -> None:
        """A method that has sent x, or keeps something made of it, cannot go on from another x."""
        if self._seen is not None and self._seen != _print(x):
            raise RuntimeError(
                f"the parameters were changed between two steps, but {type(self.algorithm).__name__} has already used "
                "the old ones: call optimizer.restart() at all nodes after changing them, or use DSGT, which goes on "
                "from any parameters"
            )

    def _agree_again(self, x: Tensor) -> None:
        """Now and then: the learning rates of all, and the models of processes that are one node."""
        if self.round % AGREE_EVERY or not self.round or self.everyone.nodes == 1:
            return
        if not self._uncoordinated:
            agree(self.everyone, {"lr": self._groups.rates})
        if self._inside is not None:
            same_inside(self._inside, "model", _print(x))

    def _moves(self, x: Tensor) -> Any:
        """What stands for lr in the method's equation."""
        changed_lr(self.algorithm, self._rate, self._groups.rates[0])
        self._rate = self._groups.rates[0]
        self._groups.check(zero=not self.algorithm.divides_by_lr)
        lr = self._groups.lr(x) if self._inner is None else self._inner.at(x)
        return lr if self._clip is None else Clipped(lr, self._clip)

    def _all_skip(self) -> bool:
        """A GradScaler found infinities: one node alone must not skip a round, so all do if one does."""
        found = getattr(self, "found_inf", None)  # set by GradScaler.step for the time of a step
        if found is None or not any_node(self.everyone, bool(found)):
            return False
        self._parameters.used()
        return True

    def _master(self) -> Tensor:
        """The parameters in the precision that the method works in."""
        vector = self._parameters.vector
        if vector.dtype not in (torch.float16, torch.bfloat16):
            return vector
        if self._state is not None and torch.equal(self._state.x.to(vector.dtype), vector):
            master: Tensor = self._state.x
            return master
        return vector.float()

    def _write(self, x: Tensor) -> None:
        """The parameters are x; in half precision they are x rounded."""
        vector = self._parameters.vector
        land_carriers(self._state, vector)
        if x.data_ptr() != vector.data_ptr():
            vector.copy_(x)
        if vector.dtype == x.dtype:
            self._state = self._state._replace(x=vector)
        self._seen = _print(self._state.x) if self.algorithm.keeps_x else None

    def _gradient(self, x: Tensor, out: Tensor) -> Tensor:
        """weight * gradient + weight_decay * x, in memory of its own: the parameters' gradients are the script's to
        write into, and the method may keep this one for the next round."""
        g = self._parameters.collect(out)
        scale = getattr(self, "grad_scale", None)
        weight = self._weight if scale is None else self._weight / float(scale)
        if weight != 1:
            g.mul_(weight)
        self._groups.add_decay(g, x)
        if self._inside is not None:
            self._inside.average(g)
        return g


def _transport(inside: Any) -> Transport:
    return inside if isinstance(inside, Transport) else TorchTransport(group=inside)


def _print(x: Tensor) -> float:
    """Another number for other parameters, in one pass over memory."""
    return float(torch.linalg.vector_norm(x)) + float(x.sum())


def _weight(network: Network, samples: int | None) -> float:
    """n N_i / sum N: with it the mean over the nodes is the mean over all samples."""
    given = float("nan") if samples is None else float(samples)
    if samples is not None and samples < 1:
        raise ValueError(f"samples is {samples}; expected the number of samples that this node holds, at least 1")
    sizes = network.gather(torch.tensor([given], dtype=torch.float64))[:, 0]
    if sizes.isnan().all():
        return 1.0
    if sizes.isnan().any():
        without = sizes.isnan().nonzero().flatten().tolist()
        raise ValueError(f"samples was given at some nodes but not at nodes {without}; give it everywhere or nowhere")
    return network.nodes * given / float(sizes.sum())
