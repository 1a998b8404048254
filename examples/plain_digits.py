"""Train a small network on the digits of scikit-learn, on one machine.

python examples/plain_digits.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    order = torch.randperm(len(x))
    train, test = order[:1500], order[1500:]

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    for step in range(601):
        batch = train[torch.randint(len(train), (len(train) // 10,))]
        optimizer.zero_grad()
        loss = loss_of(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            accuracy = (model(x[test]).argmax(1) == y[test]).float().mean()
            print(f"step {step:4d}  test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
