"""A model and its ``dsgt.Optimizer`` as one thing that is saved and resumed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from dsgt.checkpoint import fingerprint
from dsgt.checkpoint.also import Stateful, forgotten, load_all, save_all
from dsgt.checkpoint.folder import SaveError, in_use, load, save
from dsgt.checkpoint.lock import Lock
from dsgt.checkpoint.part import CheckpointWarning, DifferentError, Part, under
from dsgt.checkpoint.plain import pack, unpack
from dsgt.checkpoint.signals import Requests
from dsgt.core import Algorithm, Network


class Optimizer(Protocol):
    """What is asked of a ``dsgt.Optimizer``, which stands above checkpoints."""

    algorithm: Algorithm[Any]
    network: Network
    everyone: Network
    round: int

    def state_dict(self) -> dict[str, Any]: ...

    def blank_state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...

    def taken(self) -> dict[Tensor, Tensor]: ...


@dataclass(frozen=True)
class Training:
    """An ordinary training loop with checkpoints. Every node has one, and all call its methods at once.

        training = Training("runs/mine", model, optimizer, also={"scheduler": scheduler})
        for step in training.steps(10_000, save_every=100):
            ...  # zero_grad, backward, optimizer.step(), scheduler.step()

    ``resume`` and ``save`` are its parts, for loops of another shape. It keeps the model with its buffers, the
    optimizer, torch's random numbers, and ``also`` whatever has a state_dict() and load_state_dict(): schedulers,
    GradScalers, samplers. Other random streams, and where a data loader is within its epoch, are the script's own:
    draw batches by the step's number, or give ``extra``.
    """

    folder: str | Path
    model: nn.Module
    optimizer: Optimizer
    keep: int = 3
    strict: bool = False
    """Whether a checkpoint that cannot be written ends the training; else it warns."""
    also: Mapping[str, Stateful] | None = None
    """By names of your choice. {} says that a scheduler which is not given is kept in another way."""

    def steps(
        self, until: int, *, save_every: int, extra: Callable[[], Mapping[str, Any]] | None = None
    ) -> Iterator[int]:
        """The steps that are left, 0 ... ``until`` - 1 the first time; one ``optimizer.step()`` belongs to each.

        It resumes, saves every so many steps, at the end, and when SIGINT or SIGTERM asks to stop; then it tells how to
        go on and ends the process. A second signal ends it at once. ``extra`` is asked at every save for what else to
        keep.
        """
        if until < 1 or save_every < 1:
            raise ValueError(f"until is {until} and save_every {save_every}; they count steps, from 1 on")
        requests, first = Requests(self.optimizer.everyone), self.resume()
        with requests.listening(), closing(self._lock):
            for step in range(first, until):
                yield step
                done = step + 1
                if self.optimizer.round != done:
                    raise RuntimeError(
                        f"after step {step} the optimizer has done {self.optimizer.round} rounds, not {done}; call "
                        "optimizer.step() once a step, or write the loop with resume() and save()"
                    )
                stop = requests.to_stop(done)
                if stop or done % save_every == 0 or done == until:
                    self.save(None if extra is None else extra())
                if stop:
                    raise requests.stop(f"step {done} of {until}", self._where())

    def save(self, extra: Mapping[str, Any] | None = None) -> None:
        """``extra`` is anything that JSON can hold, such as the number of the epoch; ``extra()`` gives it back."""
        self._lock.hold(self.optimizer.everyone)
        saved = self.optimizer.state_dict()
        content = {f"optimizer.{name}": t for name, t in saved["dsgt"]["tensors"].items()}
        content |= {f"model.{name}": t for name, t in _tensors(self.model).items()}
        if taken := self.optimizer.taken():
            content |= {f"output.{name}": taken[p] for name, p in self.model.named_parameters() if p in taken}
            content["output"] = torch.cat([v.reshape(-1) for v in taken.values()])
        content |= {f"random.{device}": t for device, t in _random_states().items()}
        network = self.optimizer.everyone
        content |= {f"network.{name}": t for name, t in network.progress().items()}
        groups = [
            {key: pack(value, f"group.{i}.{key}", content) for key, value in group.items() if key != "params"}
            for i, group in enumerate(saved["param_groups"])
        ]
        beside = {"groups": groups, "also": save_all(self.also or {}, content), "extra": dict(extra or {})}
        k = self.optimizer.round
        try:
            save(self.folder, content, k=k, network=network, settings=self._settings(), extra=beside, keep=self.keep)
        except SaveError as error:
            if self.strict:
                raise
            warnings.warn(f"{error}; training goes on without it", CheckpointWarning, stacklevel=2)

    def resume(self) -> int:
        """Go on from the newest checkpoint that every node has: how many steps are done, 0 where there is none."""
        self._look_around()
        part = self._load()
        if part is None:
            return 0
        content = part.tensors
        self._check(under("model.", content))
        self.model.load_state_dict(under("model.", content), strict=False)
        blank = self.optimizer.blank_state_dict()
        for group, values in zip(blank["param_groups"], part.extra["groups"], strict=True):
            group.update({key: unpack(value, content) for key, value in values.items()})
        blank["dsgt"] |= {"round": part.k, "tensors": under("optimizer.", content)}
        self.optimizer.load_state_dict(blank)
        self.optimizer.everyone.restore(under("network.", content))
        load_all(self.also or {}, part.extra.get("also", {}), content)
        for device, state in under("random.", content).items():
            if device == "cpu":
                torch.set_rng_state(state)
            elif torch.cuda.is_available():
                torch.cuda.set_rng_state(state)
        return part.k

    def extra(self) -> dict[str, Any]:
        """What the newest checkpoint was given as ``extra``; empty where there is none."""
        part = self._load()
        return {} if part is None else dict(part.extra["extra"])

    def _look_around(self) -> None:
        """What cannot be saved, or was not given, is said before the training and not at its first interruption."""
        save_all(self.also or {}, {})
        if self.also != {} and (kinds := forgotten(self.optimizer, (self.also or {}).values())):
            warnings.warn(
                f"{' and '.join(kinds)} will not be in {self.folder}, so a resumed training would go on with a wrong "
                f"learning rate or scale: give Training(..., also={{'scheduler': scheduler}}), or also={{}} if you "
                "keep it in another way",
                CheckpointWarning,
                stacklevel=3,
            )

    def _where(self) -> str:
        if in_use(self.folder):
            return f"checkpoints are in {self.folder}: give the same command again to go on"
        return f"no checkpoint could be written to {self.folder}"

    @cached_property
    def _lock(self) -> Lock:
        """Held until the steps are done; without them until this object or the process ends."""
        return Lock(self.folder)

    def _load(self) -> Part | None:
        self._lock.hold(self.optimizer.everyone)
        return load(self.folder, network=self.optimizer.everyone, settings=self._settings())

    def _settings(self) -> dict[str, str | int]:
        trained = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        return {
            "kind": "training",
            "method": fingerprint.method(self.optimizer.algorithm),
            "nodes": self.optimizer.network.nodes,
            "W": fingerprint.weights(self.optimizer.network.weights),
            "trained parameters": trained,
            **({"also": ", ".join(sorted(self.also))} if self.also else {}),
        }

    def _check(self, saved: Mapping[str, Tensor]) -> None:
        mine = _tensors(self.model)
        for name in sorted({*mine, *saved}):
            there, here = (f"{t[name].dtype} {tuple(t[name].shape)}" if name in t else None for t in (saved, mine))
            if there != here:
                raise DifferentError(
                    f"{self.folder} holds {name} as {there}, but in this model it is {here}; resume with the same model"
                )


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}


def _random_states() -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states
