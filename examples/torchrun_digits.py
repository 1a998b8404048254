"""The same training over four machines whose data stay where they are; compare with plain_digits.py.

    torchrun --nproc-per-node 4 examples/torchrun_digits.py

Node 0 holds most of the zeros, node 3 most of the nines, and node 3 holds four times as much as node 0.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import dsgt


def main() -> None:
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

        for step in range(601):
            batch = train[torch.randint(len(train), (len(train) // 10,))]
            optimizer.zero_grad()
            loss = loss_of(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                mean = optimizer.average(model)
                accuracy = (mean(x[test]).argmax(1) == y[test]).float().mean()
                if network.node == 0:
                    print(f"step {step:4d}  test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
