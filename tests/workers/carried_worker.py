"""One node whose state others carry. usage: carried_worker.py FOLDER (checkpoint|accelerate|lightning|trainer)...

Trains undisturbed, then once more with everything saved in the middle and loaded into new objects: the bits are equal.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dsgt
from support.launch import HANGING

HALF, STEPS = 3, 6
PAIR = [[0.6, 0.4], [0.4, 0.6]]
ADAMW = dsgt.DSGT(inner=dsgt.Inner(torch.optim.AdamW))
Make = Callable[[], tuple[nn.Module, dsgt.Optimizer]]


def net(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)


def batches(node: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    draw = torch.Generator().manual_seed(node)
    return [torch.randn(5, 3, generator=draw, dtype=torch.float64).to(dtype) for _ in range(STEPS)]


def made(network: dsgt.Network, method: dsgt.Algorithm[Any], dtype: torch.dtype) -> tuple[nn.Module, dsgt.Optimizer]:
    model = net(dtype)
    groups = [{"params": model[0].parameters(), "lr": 0.01}, {"params": model[2].parameters()}]
    return model, dsgt.Optimizer(groups, method, network, lr=0.05)


def train(model: nn.Module, optimizer: Any, some: list[Tensor]) -> None:
    for batch in some:
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()


def equal(model: nn.Module, other: nn.Module) -> None:
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))


def checkpoint(network: dsgt.Network, folder: Path) -> None:
    """torch.distributed.checkpoint, in both of its forms, also of bfloat16 with float32 masters."""
    for method in (ADAMW, dsgt.GNSD(), dsgt.SGP()):
        for dtype in (torch.float64, torch.bfloat16):
            for flattened in (False, True):
                place = folder / f"{type(method).__name__}-{dtype}-{flattened}"
                by_checkpoint(network, place, method, dtype, flattened)
    same_names(network, folder / "same")


def by_checkpoint(
    network: dsgt.Network, folder: Path, method: dsgt.Algorithm[Any], dtype: torch.dtype, flattened: bool
) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import state_dict as api

    options = api.StateDictOptions(flatten_optimizer_state_dict=flattened)
    mine = f"node {network.node}"

    def states(model: nn.Module, optimizer: dsgt.Optimizer) -> dict[str, Any]:
        held = api.get_optimizer_state_dict(model, optimizer, options=options)
        return {mine: {"model": api.get_model_state_dict(model), "optimizer": held}}

    some = batches(network.node or 0, dtype)
    expected, optimizer = made(network, method, dtype)
    train(expected, optimizer, some)
    first, optimizer = made(network, method, dtype)
    train(first, optimizer, some[:HALF])
    dcp.save(states(first, optimizer), checkpoint_id=folder)
    second, optimizer = made(network, method, dtype)
    saved = states(second, optimizer)
    dcp.load(saved, checkpoint_id=folder)
    api.set_model_state_dict(second, saved[mine]["model"])
    api.set_optimizer_state_dict(second, optimizer, saved[mine]["optimizer"], options=options)
    assert optimizer.round == HALF
    train(second, optimizer, some[HALF:])
    equal(second, expected)


def same_names(network: dsgt.Network, folder: Path) -> None:
    """One name at all nodes: torch takes their tensors for copies of each other, and writes one."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import state_dict as api

    model, optimizer = made(network, ADAMW, torch.float64)
    train(model, optimizer, batches(network.node or 0)[:HALF])
    dcp.save({"optimizer": api.get_optimizer_state_dict(model, optimizer)}, checkpoint_id=folder)
    saved = {"optimizer": api.get_optimizer_state_dict(model, optimizer)}
    dcp.load(saved, checkpoint_id=folder)
    said = ""
    try:
        api.set_optimizer_state_dict(model, optimizer, saved["optimizer"])
    except ValueError as error:
        said = str(error)
    refused = torch.tensor(["give every node a name of its own" in said], dtype=torch.float64)
    assert network.mean(refused) >= 0.5  # all but the one whose number was written


def accelerate(network: dsgt.Network, folder: Path) -> None:
    from accelerate import Accelerator

    with dsgt.alone():
        accelerator = Accelerator(cpu=True)
    some = batches(network.node or 0)
    expected, optimizer = made(network, ADAMW, torch.float64)
    train(expected, optimizer, some)
    with pytest.MonkeyPatch.context() as patch:
        for begin, end in ((0, HALF), (HALF, STEPS)):
            patch.setattr(accelerator, "_models", [])
            patch.setattr(accelerator, "_optimizers", [])
            model, optimizer = accelerator.prepare(*made(network, ADAMW, torch.float64))
            if begin:
                accelerator.load_state(str(folder))
            train(model, optimizer, some[begin:end])
            accelerator.save_state(str(folder))
    equal(model, expected)


def lightning(network: dsgt.Network, folder: Path) -> None:
    import lightning as pl

    class Net(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def training_step(self, batch: tuple[Tensor], _: int) -> Tensor:
            return self.net(batch[0]).pow(2).mean()

        def configure_optimizers(self) -> dsgt.Optimizer:
            return dsgt.Optimizer(self.parameters(), ADAMW, network, lr=0.05)

    # saved where an epoch ends: Lightning itself does not go on in the middle of one, nor where max_steps has ended it
    loader = DataLoader(TensorDataset(torch.cat(batches(network.node or 0)[:HALF])), batch_size=5)
    quiet = {f"enable_{what}": False for what in ("checkpointing", "progress_bar", "model_summary")} | {"logger": False}

    def fit(epochs: int, **options: Any) -> tuple[Net, pl.Trainer]:
        model = Net()
        with dsgt.alone():
            trainer = pl.Trainer(accelerator="cpu", devices=1, max_epochs=epochs, **quiet)
        trainer.fit(model, loader, **options)
        return model, trainer

    expected, _ = fit(2)
    _, trainer = fit(1)
    with dsgt.alone():
        trainer.save_checkpoint(folder / "half.ckpt")
    found, _ = fit(2, ckpt_path=folder / "half.ckpt", weights_only=True)
    equal(found, expected)


def trainer(network: dsgt.Network, folder: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    data = [{"input_ids": ids, "labels": ids} for ids in torch.arange(64).reshape(8, 8) % 16 + (network.node or 0)]
    quiet = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no"}

    def fit(where: Path, steps: int, resume: str | None = None) -> nn.Module:
        torch.manual_seed(0)
        sizes = {"vocab_size": 20, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
        model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
        model.should_save_on_this_rank = lambda main: main  # every node writes its own model
        optimizer = dsgt.Optimizer(model.parameters(), ADAMW, network, lr=1e-3)
        with dsgt.alone():
            settings = TrainingArguments(
                str(where), max_steps=steps, save_steps=HALF, per_device_train_batch_size=2, max_grad_norm=0.0, **quiet
            )
            made = Trainer(model, settings, train_dataset=data, optimizers=(optimizer, None))
        made.train(resume_from_checkpoint=resume)
        return model

    expected = fit(folder / "whole", STEPS)
    found = fit(folder / "half", STEPS, resume=str(folder / "whole" / f"checkpoint-{HALF}"))
    equal(found, expected)


CARRIERS = {"checkpoint": checkpoint, "accelerate": accelerate, "lightning": lightning, "trainer": trainer}

if __name__ == "__main__":
    torch.set_num_threads(1)
    with dsgt.networks.TorchPeers(PAIR, timeout=HANGING) as pair, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place, *kinds = sys.argv[1:]
        for kind in kinds:
            CARRIERS[kind](pair, Path(place) / (kind if kind == "checkpoint" else f"{kind}-{pair.node}"))
            print(f"{kind} carries node {pair.node}", flush=True)
