"""A small GPT-2 with the Trainer of Hugging Face, on the language reference that ships with Python, on one machine.

python examples/plain_trainer.py runs/plain_trainer
"""

import sys
from pydoc_data.topics import topics

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

STEPS, CONTEXT = 200, 32


def windows(text: str) -> list[dict[str, Tensor]]:
    """Characters beyond 127 count as 127."""
    codes = torch.tensor([min(ord(c), 127) for c in text])
    parts = codes[: len(codes) // CONTEXT * CONTEXT].split(CONTEXT)
    return [{"input_ids": part, "labels": part} for part in parts]


def main(folder: str) -> None:
    chapters = [topics[name] for name in sorted(topics)]
    test = windows("".join(chapters[4::5]))
    train = windows("".join(text for i, text in enumerate(chapters) if i % 5 != 4))

    torch.manual_seed(0)
    sizes = {"vocab_size": 128, "n_positions": CONTEXT, "n_embd": 64, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no"}
    settings = TrainingArguments(
        folder, max_steps=STEPS, per_device_train_batch_size=16, warmup_steps=20, max_grad_norm=1.0, **quiet
    )
    trainer = Trainer(model, settings, train_dataset=train, optimizers=(optimizer, None))
    trainer.train()
    batch = torch.stack([window["input_ids"] for window in test[:200]])
    found = model.eval()(batch, labels=batch).loss
    print(f"step {trainer.state.global_step}  test loss {found:.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/plain_trainer")
