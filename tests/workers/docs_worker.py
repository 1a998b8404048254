"""Executes, as one of four real nodes, what the documentation has for them. usage: docs_worker.py FOLDER ROOT

The reader's own names are made up here: data, a model, a loss, batches.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import nn

import dsgt
from support.markdown import Block, blocks

STEPS = 6


def my_own_data(node: int) -> torch.utils.data.TensorDataset:
    """Of another size at every node: batches of a tenth are 10, 10, 11 and 13 an epoch; node i sees class i."""
    draw, size = torch.Generator().manual_seed(node), (10, 40, 53, 38)[node]
    features = torch.randn(size, 64, generator=draw)
    return torch.utils.data.TensorDataset(features, torch.full((size,), node))


def readme(block: Block) -> None:
    names = {"my_own_data": my_own_data}
    exec(compile(block.source, block.page, "exec"), names)
    lengths = [-(-len(data) // (len(data) // 10)) for data in map(my_own_data, range(4))]
    assert len(set(lengths)) > 1  # as many steps as the longest has, at every node
    assert names["optimizer"].round == max(lengths)
    assert all(torch.isfinite(p).all() for p in names["mean"].parameters())


def reliability(code: list[Block]) -> None:
    model = nn.Linear(3, 1)
    with dsgt.networks.TorchPeers(dsgt.topologies.metropolis(dsgt.topologies.ring(4))) as network:
        names = {
            "dsgt": dsgt,
            "model": model,
            "optimizer": dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.1),
            "loss_of": lambda model, batch: model(batch).square().mean(),
            "next_batch": lambda: torch.ones(2, 3),
        }
        for block in code:
            exec(compile(block.source, block.page, "exec"), names)
        assert names["optimizer"].round == STEPS


def porting(code: list[Block]) -> None:
    for block in code:
        exec(compile(block.source, block.page, "exec"), {})


def asynchrony(code: list[Block]) -> None:
    for block in code:
        names = {"my_own_data": my_own_data}
        exec(compile(block.source, block.page, "exec"), names)
        assert names["optimizer"].k == len(names["loader"])  # another number at every node
        assert all(torch.isfinite(p).all() for p in names["model"].parameters())


def main(folder: str, root: Path) -> None:
    os.chdir(folder)
    (loop,) = [block for block in blocks(root / "README.md") if block.torchrun]
    readme(loop)
    reliability([block for block in blocks(root / "docs" / "reliability.md") if block.torchrun])
    porting([block for block in blocks(root / "docs" / "porting.md") if block.torchrun])
    porting([block for block in blocks(root / "docs" / "variance-reduction.md") if block.torchrun])
    asynchrony([block for block in blocks(root / "docs" / "asynchrony.md") if block.torchrun])
    for name in ("torchrun_digits", "resume_digits"):
        text = (root / "examples" / f"{name}.py").read_text().replace("601", "21")
        exec(compile(text, name, "exec"), {"__name__": "__main__", "__file__": name})


if __name__ == "__main__":
    folder, root = sys.argv[1:]
    sys.argv = sys.argv[:1]
    main(folder, Path(root))
