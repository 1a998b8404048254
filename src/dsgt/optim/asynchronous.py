"""This process's node of an asynchronous method, as a torch.optim.Optimizer: a step never waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from dsgt.asynchronous.core import AsyncAlgorithm
from dsgt.asynchronous.node import Node
from dsgt.asynchronous.peers import AsyncPeers
from dsgt.optim.groups import Groups
from dsgt.optim.guards import refuse_ddp
from dsgt.optim.parameters import Parameters


class AsyncOptimizer(torch.optim.Optimizer):
    """This process's node, training its copy of the model on its own data, at its own pace.

        with dsgt.AsyncOptimizer(model.parameters(), dsgt.AsySONATA(), peers, lr=0.1) as optimizer:
            for x, y in loader:
                optimizer.zero_grad()
                loss_function(model(x), y).backward()
                optimizer.step()

    A ``step`` takes the newest letters that have come, moves, tells the neighbours, and goes on: it waits for nobody,
    and nodes may take different numbers of steps. Only the beginning waits, until all neighbours are there, and the end
    (``finish``, or leaving the ``with`` block), until nothing that was given is under way any more.

    Nodes that start from different models are drawn together, but seed them equally. ``share`` is this node's share of
    all samples: with it the nodes minimise the mean loss over all samples, without it every node counts the same.

    With ``checkpoint_dir`` the node saves itself every ``checkpoint_every`` steps and whenever it must; with ``resume``
    a node that was killed returns from there while the others go on. ``optimizer.k`` is then how many steps it has
    done: what else the script remembers, such as its place in the data, follows from it.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]],
        algorithm: AsyncAlgorithm[Any],
        peers: AsyncPeers,
        lr: float,
        weight_decay: float = 0.0,
        *,
        share: float | None = None,
        unused: str = "error",
        seed: int = 0,
        checkpoint_dir: str | Path | None = None,
        checkpoint_every: int | None = None,
        resume: bool = False,
        prepared: Callable[[Node[Any]], None] | None = None,
    ) -> None:
        """prepared: is shown the node before it starts, so that it can be recorded."""
        if not isinstance(algorithm, AsyncAlgorithm):
            raise TypeError(
                f"{type(algorithm).__name__} is no asynchronous method; use dsgt.Optimizer for it, or AsySONATA, APPG, "
                "AsySPA, AGP, RFAST or ADPSGD here"
            )
        if share is not None and not 0 < share <= 1:
            raise ValueError(f"share is {share}; expected this node's share of all samples, above 0 and at most 1")
        given = list(params)
        if not given:
            raise ValueError("0 parameters were given; give model.parameters()")
        super().__init__(given, {"lr": lr, "weight_decay": weight_decay})  # type: ignore[arg-type]
        self.algorithm, self.peers = algorithm, peers
        self._groups = Groups(self.param_groups)
        self._parameters = Parameters(self._groups.trained, unused=unused)
        self._weight = 1.0 if share is None else peers.nodes * share
        refuse_ddp(self._parameters.tensors)
        vector = self._parameters.vector
        half = vector.dtype in (torch.float16, torch.bfloat16)
        x = vector.detach().to("cpu", torch.float32 if half else vector.dtype, copy=True)
        self.real = peers.take_part(
            algorithm,
            x,
            lambda _: self._groups.lr(x),
            seed=seed,
            job=str([(name, tuple(p.shape)) for name, p in self._groups.trained]),
            checkpoint_dir=None if checkpoint_dir is None else Path(checkpoint_dir),
            checkpoint_every=checkpoint_every,
            resume=resume,
            prepared=prepared,
        )
        self.real.start()
        self._write(self.real.node.point)

    @property
    def k(self) -> int:
        """How many steps this node has done, those before it came back included."""
        return self.real.node.mail.k

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._parameters.clear(to_none=set_to_none)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take what has come, move, tell. Waits for nobody."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._groups.check(zero=True)
        self._parameters.follow()
        vector, point = self._parameters.vector, self.real.node.point
        if not torch.equal(point.to(vector), vector):
            raise RuntimeError(
                "the parameters were changed between two steps, but the neighbours have been told the old ones: train "
                "from the parameters as step() left them"
            )
        g = self._parameters.collect(torch.empty_like(vector)).to(point.device, point.dtype).mul_(self._weight)
        self.real.wake(self._groups.add_decay(g, point))
        self._write(self.real.node.point)
        self._parameters.used()
        return loss

    def finish(self) -> None:
        """The last step is done: wait until nothing is under way, take what has come, and leave. The parameters are
        then what the method promises. Every node must come here, each when it is done."""
        self.real.finish()
        self._write(self.algorithm.model(self.real.node.state))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.real.close()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if hasattr(self, "_groups"):  # torch's own constructor adds the first ones by this door
            raise ValueError("a node takes one step for its whole model; give all parameters to the constructor")
        super().add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        raise RuntimeError(
            "an asynchronous node saves itself, since a phase must be kept before the others are told of it: give "
            "checkpoint_dir and checkpoint_every, and resume=True when it comes back"
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.state_dict()

    def _write(self, x: Tensor) -> None:
        """The parameters are x; in half precision they are x rounded."""
        with torch.no_grad():
            self._parameters.vector.copy_(x)
