"""The same with two machines, each of which has read other chapters; compare with plain_trainer.py.

torchrun --nproc-per-node 2 examples/torchrun_trainer.py runs/torchrun_trainer
"""

import sys
from pydoc_data.topics import topics

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import dsgt

STEPS, CONTEXT = 200, 32


def windows(text: str) -> list[dict[str, Tensor]]:
    """Characters beyond 127 count as 127."""
    codes = torch.tensor([min(ord(c), 127) for c in text])
    parts = codes[: len(codes) // CONTEXT * CONTEXT].split(CONTEXT)
    return [{"input_ids": part, "labels": part} for part in parts]


def main(folder: str, network: dsgt.Network) -> None:
    chapters = [topics[name] for name in sorted(topics)]
    test = windows("".join(chapters[4::5]))
    # On a real machine this is its own text: node i has read every fifth chapter, beginning with chapter i.
    train = windows("".join(chapters[network.node :: 5]))

    torch.manual_seed(0)
    sizes = {"vocab_size": 128, "n_positions": CONTEXT, "n_embd": 64, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    method = dsgt.DSGT(inner=dsgt.Inner(torch.optim.AdamW, betas=(0.9, 0.95)))
    optimizer = dsgt.Optimizer(model.parameters(), method, network, lr=3e-3, clip=1.0, samples=len(train))
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no"}
    with dsgt.alone():  # it must not average gradients, nor cut the node's own data into pieces
        settings = TrainingArguments(
            folder, max_steps=STEPS, per_device_train_batch_size=16, warmup_steps=20, max_grad_norm=0.0, **quiet
        )
        trainer = Trainer(model, settings, train_dataset=train, optimizers=(optimizer, None))
    trainer.train()
    batch = torch.stack([window["input_ids"] for window in test[:200]])
    found = optimizer.average(model).eval()(batch, labels=batch).loss
    if network.node == 0:
        print(f"step {trainer.state.global_step}  test loss {found:.3f}", flush=True)


if __name__ == "__main__":
    with dsgt.networks.TorchPeers([[0.5, 0.5], [0.5, 0.5]]) as pair:
        main((sys.argv[1] if len(sys.argv) > 1 else "runs/torchrun_trainer") + f"/node-{pair.node}", pair)
