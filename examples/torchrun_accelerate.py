"""The same with two machines whose data stay where they are; compare with plain_accelerate.py.

torchrun --nproc-per-node 2 examples/torchrun_accelerate.py
"""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

import dsgt

EPOCHS = 8


def main(network: dsgt.Network) -> None:
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    order = torch.randperm(len(x))
    train, test = order[:1500], order[1500:]
    # On a real machine this line is absent: a node has the data it has.
    train = train[y[train].argsort()].split([500, 1000])[network.node]
    loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=len(train) // 20, shuffle=True)

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    loss_of = nn.CrossEntropyLoss()
    with dsgt.alone():  # it must not average gradients, nor cut the node's own data into pieces
        accelerator = Accelerator(cpu=True)
    method = dsgt.DSGT(inner=dsgt.Inner(torch.optim.AdamW))
    optimizer = dsgt.Optimizer(model.parameters(), method, network, lr=1e-2, samples=len(train))
    scheduler = CosineAnnealingLR(optimizer, EPOCHS)
    model, prepared, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    for epoch in range(EPOCHS):
        for images, labels in optimizer.epoch(loader):
            prepared.zero_grad()
            accelerator.backward(loss_of(model(images), labels))
            prepared.step()
        scheduler.step()
        mean = optimizer.average(model)
        found = (mean(x[test]).argmax(1) == y[test]).float().mean()
        if network.node == 0:
            print(f"epoch {epoch}  test accuracy {found:.3f}", flush=True)


if __name__ == "__main__":
    with dsgt.networks.TorchPeers([[0.5, 0.5], [0.5, 0.5]]) as pair:
        main(pair)
