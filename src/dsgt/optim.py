"""The same algorithms as a torch.optim.Optimizer: ``zero_grad``, ``backward``, ``step`` as everyone writes it."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from dsgt import engine
from dsgt.checkpoint import fingerprint
from dsgt.core import Algorithm, Network, tensors, with_tensors
from dsgt.divergence import check_gradient
from dsgt.flat import flattened, link, views
from dsgt.run import as_schedule
from dsgt.topologies.needs import check


class Optimizer(torch.optim.Optimizer):
    """This process's node of the network, training its copy of the model on its own data.

    ``lr`` is the learning rate of centralized SGD on all data together. ``samples`` is the size of this node's data
    set: with it, nodes of different sizes minimise the mean loss over all samples, provided the loss is the mean over
    a batch drawn from the local data; without it, every node counts the same. ``weight_decay`` is added to the
    gradient before it is tracked.

    Parameters and their gradients are views of one flat vector each, so a mixing is one message. Parameters in
    half precision keep a float32 master copy, and everything the method remembers is float32.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        algorithm: Algorithm[Any],
        network: Network,
        lr: float,
        weight_decay: float = 0.0,
        samples: int | None = None,
    ) -> None:
        if network.node is None:
            raise ValueError(
                f"{type(network).__name__} holds all nodes, but an Optimizer trains the one node of this process: use "
                "networks.TorchPeers under torchrun or networks.MPIPeers under mpiexec, or dsgt.run to simulate"
            )
        check(type(algorithm).__name__, algorithm.needs, network.matrices)
        as_schedule(lr)
        if weight_decay < 0:
            raise ValueError(f"weight_decay is {weight_decay}; expected a number >= 0")
        trained = _trainable(params)
        super().__init__(trained, {"lr": lr, "weight_decay": weight_decay})
        self.algorithm, self.network = algorithm, network
        self.round = 0
        self._weight = _weight(network, samples)
        self._params = trained
        self._flat = flattened(trained)
        link(trained, self._flat)
        self._state: Any = None
        self._unfinished = False
        self._kept_gradient: _Unchanged | None = None
        self._update = engine.Updates(algorithm, network, keep_x=True)
        self._fresh: set[int] = set()
        for p in trained:
            p.register_hook(_announcer(self, p))
        self.zero_grad()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """A new flat gradient of zeros: the one before may live on in the method's state."""
        self._grad, self._consumed = self._update.scratch(self._flat).zero_(), False
        for p, view in self._gradients():
            p.grad = view
        self._fresh.clear()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One round: mix with the neighbours and move."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._check_whole()
        lr = float(self.param_groups[0]["lr"])
        as_schedule(lr)
        mix = self.network.at(self.round)
        x = self._master()
        if self._state is None:
            self._state = self.algorithm.init(x.clone(), self.network.at(0))._replace(x=x)
        g = self._gradient(x)
        check_gradient(g, x, self.network, self.round, lr)
        self.network.computed(self.round)
        # x is where the parameters live; every other field is the method's own memory, which may be overwritten
        state, self._unfinished, self._kept_gradient = self._state._replace(x=x), True, None
        self._state = self._update(state, g, mix, lr)
        self._unfinished = False
        self._kept_gradient = _Unchanged(self._grad) if _holds(self._state, self._grad) else None
        if self._state.x.data_ptr() != self._flat.data_ptr():
            self._flat.copy_(self._state.x)
        if self._flat.dtype == self._state.x.dtype:
            self._state = self._state._replace(x=self._flat)
        self._fresh.clear()
        self._consumed = True
        self.round += 1
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self.param_groups:
            raise ValueError("a node takes one step for its whole model; give all parameters to the constructor")
        super().add_param_group(param_group)

    def average(self, model: nn.Module) -> nn.Module:
        """A copy of the model holding the network's mean parameters, for evaluation; training goes on undisturbed.

        Buffers are averaged too: BatchNorm's running means and variances become the means of the nodes', which
        leaves out how far the nodes' means lie apart; counters become rounded means. All nodes must call it at once.
        """
        mean = copy.deepcopy(model)
        with torch.no_grad():
            values = [*mean.parameters(), *(b for b in mean.buffers() if b.numel())]
            average = self.network.mean(flattened(values, dtype=torch.float64))
            for v, part in zip(values, views(average, values), strict=True):
                v.copy_(part if v.is_floating_point() else part.round())
        return mean

    def state_dict(self) -> dict[str, Any]:
        """Complete with the parameters' own state_dict: waits for this node's messages in flight."""
        self._check_whole()
        saved = self.blank_state_dict()
        held = {} if self._state is None else tensors(self._state)
        saved["dsgt"] |= {"round": self.round, "tensors": {name: v.clone() for name, v in held.items()}}
        return saved

    def blank_state_dict(self) -> dict[str, Any]:
        """``state_dict`` as it was before the first step, and whatever became of the last one."""
        saved = super().state_dict()
        who = {"nodes": self.network.nodes, "node": self.network.node}
        saved["dsgt"] = {"algorithm": _named(self.algorithm), **who, "round": 0, "tensors": {}}
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on exactly where ``state_dict`` was taken; the parameters are set as well."""
        saved = state_dict.get("dsgt")
        if saved is None:
            raise ValueError("this state_dict was not saved by a dsgt.Optimizer: it has no entry 'dsgt'")
        mine = {
            "algorithm": _named(self.algorithm),
            "nodes": self.network.nodes,
            "node": self.network.node,
        }
        for key, value in mine.items():
            if saved[key] != value:
                raise ValueError(f"this state_dict was saved with {key} = {saved[key]}, but here it is {value}")
        x = saved["tensors"].get("x")
        if x is not None and x.shape != self._flat.shape:
            raise ValueError(f"this state_dict holds {x.numel()} parameters, but here there are {self._flat.numel()}")
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "dsgt"})
        self.round, self._unfinished, self._kept_gradient = saved["round"], False, None
        if x is None:
            self._state = None
            return
        values = {k: v.to(self._flat.device, copy=True) for k, v in saved["tensors"].items()}
        with torch.no_grad():
            self._flat.copy_(values["x"])
        # a blank state of this method says which fields are messages; its own message, if any, is waited for
        blank = self.algorithm.init(values["x"], self.network.at(self.round))
        tensors(blank)
        self._state = with_tensors(blank, values)

    def before_accumulating(self, p: Tensor) -> None:
        """Called by autograd when it has a gradient for p and has not added it yet."""
        if self._consumed:  # zero_grad was not called, so the state still reads the vector that would be added to
            mine = [q.grad is not None and q.grad.data_ptr() == view.data_ptr() for q, view in self._gradients()]
            self._grad, self._consumed = self._grad.clone(), False
            for is_mine, (q, view) in zip(mine, self._gradients(), strict=True):
                if is_mine:
                    q.grad = view
        self._fresh.add(id(p))

    def _check_whole(self) -> None:
        """Whether what the method remembers is what the last step left."""
        if self._kept_gradient is not None and self._kept_gradient.changed:
            raise RuntimeError(
                f"the gradients of the step before were changed in place, but {type(self.algorithm).__name__} still "
                "needs them: clear them with optimizer.zero_grad() or model.zero_grad(), which give new ones"
            )
        if self._unfinished:
            raise RuntimeError(
                f"the step of round {self.round} failed, and what the method remembers may be half overwritten; the "
                "parameters are those before or after it: start again from the last checkpoint, with load_state_dict"
            )

    def _gradients(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Every parameter with its part of the flat gradient."""
        return zip(self._params, views(self._grad, self._params), strict=True)

    def _master(self) -> Tensor:
        """The parameters in the precision that the method works in."""
        if self._flat.dtype not in (torch.float16, torch.bfloat16):
            return self._flat
        if self._state is not None and torch.equal(self._state.x.to(self._flat.dtype), self._flat):
            master: Tensor = self._state.x
            return master
        return self._flat.float()

    def _gradient(self, x: Tensor) -> Tensor:
        """weight * gradient + weight_decay * x, from what backward left in the parameters."""
        for index, (p, view) in enumerate(self._gradients()):
            if p.grad is None or id(p) not in self._fresh:
                lacking = f"parameter {index} of shape {tuple(p.shape)} has" if self._fresh else "the parameters have"
                raise RuntimeError(
                    f"{lacking} no new gradient: call loss.backward() before every step(), with a loss that depends on "
                    "every parameter; freeze those that are not trained with requires_grad_(False)"
                )
            if p.grad.data_ptr() != view.data_ptr():  # model.zero_grad() threw the view away
                view.copy_(p.grad)
        g = self._grad.to(x.dtype)
        if self._weight != 1:
            g = self._weight * g
        if decay := self.param_groups[0]["weight_decay"]:
            g = g + decay * x
        return g


def _named(algorithm: Algorithm[Any]) -> str:
    """Its class, and its parameters where it has some: another beta would go on along another path."""
    return fingerprint.method(algorithm).removesuffix("()")


class _Unchanged:
    """Notices whether somebody has written into a tensor, or into a view of it."""

    def __init__(self, v: Tensor) -> None:
        self._v, self._version = v.detach(), v._version

    @property
    def changed(self) -> bool:
        return self._v._version != self._version


def _holds(state: tuple[Any, ...], v: Tensor) -> bool:
    return any(isinstance(f, Tensor) and f.data_ptr() == v.data_ptr() for f in state)


def _announcer(optimizer: Optimizer, p: Tensor) -> Callable[[Tensor], None]:
    """A hook that tells the optimizer, for as long as there is one, that p is about to get a gradient."""
    known = weakref.ref(optimizer)

    def announce(_: Tensor) -> None:
        if (alive := known()) is not None:
            alive.before_accumulating(p)

    return announce


def _trainable(params: Iterable[Tensor]) -> list[Tensor]:
    given = list(params)
    if any(isinstance(p, dict) for p in given):
        raise ValueError(
            "parameter groups were given, but a node takes one step for its whole model; give model.parameters()"
        )
    trained = [p for p in given if p.requires_grad]
    if not trained:
        raise ValueError(f"{len(given)} parameters were given and none of them is trainable; give model.parameters()")
    kinds = {(p.dtype, p.device) for p in trained}
    if len(kinds) > 1:
        raise ValueError(
            f"the parameters have different dtypes or devices ({', '.join(map(str, kinds))}); one flat vector holds "
            "them all: convert the model with model.to(device, dtype)"
        )
    return trained


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
