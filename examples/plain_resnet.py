"""A small residual network on the digits of scikit-learn, with what a training script usually has, on one machine.

    python examples/plain_resnet.py runs/plain_resnet

Batch normalisation, augmentation, momentum, clipping, warm-up and cosine schedule, and a checkpoint after every epoch:
the same command given again goes on from it.
"""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, WARM_UP = 10, 2


class Block(nn.Module):
    """Two convolutions, and a way past them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.past = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.past(x))


def resnet() -> nn.Module:
    blocks = [Block(1, 8, 1), Block(8, 16, 2), Block(16, 32, 2)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def shifted(images: Tensor) -> Tensor:
    """Augmentation: by up to one pixel."""
    down, right = torch.randint(-1, 2, (2,)).tolist()
    return torch.roll(images, (down, right), dims=(2, 3))


def digits() -> tuple[TensorDataset, Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(labels)
    order = torch.randperm(len(x))
    train, test = order[:1500], order[1500:]
    return TensorDataset(x[train], y[train]), x[test], y[test]


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main(folder: Path) -> None:
    torch.manual_seed(0)
    data, x_test, y_test = digits()
    loader = DataLoader(data, batch_size=len(data) // 20, shuffle=True, drop_last=True)

    model = resnet()
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    warm, cosine = LinearLR(optimizer, 0.1, total_iters=WARM_UP), CosineAnnealingLR(optimizer, EPOCHS - WARM_UP)
    scheduler = SequentialLR(optimizer, [warm, cosine], [WARM_UP])
    file = folder / "checkpoint.pt"
    if file.exists():
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        torch.set_rng_state(saved["random"])

    for epoch in range(scheduler.last_epoch, EPOCHS):
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = loss_of(model(shifted(images)), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        scheduler.step()
        folder.mkdir(parents=True, exist_ok=True)
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
        torch.save(states | {"random": torch.get_rng_state()}, file)
        found = accuracy(model, x_test, y_test)
        print(f"epoch {epoch}  test accuracy {found:.3f}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/plain_resnet"))
