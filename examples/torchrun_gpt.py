"""The same training over four machines, each of which has read other chapters; compare with plain_gpt.py.

    torchrun --nproc-per-node 4 examples/torchrun_gpt.py

AdamW, weight decay on matrices only, clipping, warm-up and cosine schedule, bfloat16 autocast, accumulated gradients.
"""

import math
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

import dsgt

STEPS, WARM_UP, BATCH, PARTS = 301, 20, 16, 2
CONTEXT, WIDTH, HEADS, LAYERS = 32, 64, 4, 2


class Block(nn.Module):
    """Attention to what came before, then a small network for each character."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.merge = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.think = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(2, (HEADS, -1)).transpose(1, 2) for t in self.project(self.first(x)).chunk(3, dim=2))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.merge(seen.transpose(1, 2).flatten(2))
        return x + self.think(self.second(x))


class GPT(nn.Module):
    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.out = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters))

    def forward(self, text: Tensor) -> Tensor:
        return self.out(self.blocks(self.characters(text) + self.places.weight))


def language_reference() -> tuple[list[Tensor], int]:
    """Its chapters as numbers of characters, and how many characters there are."""
    chapters = [topics[name] for name in sorted(topics)]
    number = {c: i for i, c in enumerate(sorted(set("".join(chapters))))}
    return [torch.tensor([number[c] for c in text]) for text in chapters], len(number)


def loss_of(model: nn.Module, text: Tensor) -> Tensor:
    """Of the next character, at random places of the text."""
    begin = torch.randint(len(text) - CONTEXT, (BATCH, 1))
    window = text[begin + torch.arange(CONTEXT + 1)]
    with torch.autocast("cpu", torch.bfloat16):
        return nn.functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())


def rate(step: int) -> float:
    """Linear warm-up from 0, then half a cosine down to a tenth."""
    if step < WARM_UP:
        return step / WARM_UP
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - WARM_UP) / (STEPS - WARM_UP)))


def main(network: dsgt.Network) -> None:
    torch.manual_seed(0)
    chapters, characters = language_reference()
    test = torch.cat(chapters[4::5])
    # On a real machine this is its own text: node i has read every fifth chapter, beginning with chapter i.
    train = torch.cat(chapters[network.node :: 5])

    model = GPT(characters)
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2]},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    method = dsgt.DSGT(inner=dsgt.Inner(torch.optim.AdamW, betas=(0.9, 0.95), weight_decay=0.1))
    optimizer = dsgt.Optimizer(groups, method, network, lr=3e-3, clip=1.0, samples=len(train))
    scheduler = LambdaLR(optimizer, rate)

    for step in range(STEPS):
        optimizer.zero_grad()
        for _ in range(PARTS):
            loss = loss_of(model, train) / PARTS
            loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 50 == 0:
            mean = optimizer.average(model)
            with torch.no_grad():
                found = sum(loss_of(mean, test) for _ in range(20)) / 20
            if network.node == 0:
                print(f"step {step:3d}  test loss {found:.3f}", flush=True)


if __name__ == "__main__":
    with dsgt.networks.TorchPeers(dsgt.topologies.metropolis(dsgt.topologies.ring(4))) as ring:
        main(ring)
