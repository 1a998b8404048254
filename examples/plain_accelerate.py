"""A training loop with Hugging Face Accelerate, on one machine.

python examples/plain_accelerate.py
"""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 8


def main() -> None:
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    order = torch.randperm(len(x))
    train, test = order[:1500], order[1500:]
    loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=len(train) // 20, shuffle=True)

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    loss_of = nn.CrossEntropyLoss()
    accelerator = Accelerator(cpu=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = CosineAnnealingLR(optimizer, EPOCHS)
    model, prepared, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    for epoch in range(EPOCHS):
        for images, labels in loader:
            prepared.zero_grad()
            accelerator.backward(loss_of(model(images), labels))
            prepared.step()
        scheduler.step()
        found = (model(x[test]).argmax(1) == y[test]).float().mean()
        print(f"epoch {epoch}  test accuracy {found:.3f}", flush=True)


if __name__ == "__main__":
    main()
