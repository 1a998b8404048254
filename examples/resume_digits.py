"""The training of torchrun_digits.py, which survives what happens to long jobs; the difference is two lines.

    torchrun --nproc-per-node 4 --max-restarts 3 examples/resume_digits.py runs/digits

Kill a worker: torchrun starts all of them again, and they go on from the newest checkpoint that every node has. Press
Ctrl-C: they save, say so, and the same command goes on from there. Kill everything and start it again: the same. The
result is the same to the last bit.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import dsgt


def main(folder: str) -> None:
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    order = torch.randperm(len(x))
    train, test = order[:1500], order[1500:]

    ring = dsgt.topologies.metropolis(dsgt.topologies.ring(4))
    with dsgt.networks.TorchPeers(ring) as network:
        # On a real machine this line is absent: a node has the data it has.
        train = train[y[train].argsort()].split([150, 300, 450, 600])[network.node]

        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        loss_of = nn.CrossEntropyLoss()
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), network, lr=0.5, samples=len(train))
        training = dsgt.checkpoint.Training(folder, model, optimizer)

        for step in training.steps(601, save_every=50):
            batch = train[torch.randint(len(train), (len(train) // 10,))]
            optimizer.zero_grad()
            loss = loss_of(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                mean = optimizer.average(model)
                accuracy = (mean(x[test]).argmax(1) == y[test]).float().mean()
                if network.node == 0:
                    print(f"step {step:4d}  test accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/resume_digits")
