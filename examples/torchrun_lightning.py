"""The same with two machines whose data stay where they are; compare with plain_lightning.py.

torchrun --nproc-per-node 2 examples/torchrun_lightning.py
"""

import lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dsgt

STEPS = 200


class Digits(lightning.LightningModule):
    def __init__(self, network: dsgt.Network, samples: int) -> None:
        super().__init__()
        self.network, self.samples = network, samples
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self) -> dict[str, object]:
        method = dsgt.DSGT(inner=dsgt.Inner(torch.optim.SGD, momentum=0.9))
        optimizer = dsgt.Optimizer(self.parameters(), method, self.network, lr=0.5, samples=self.samples)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main(network: dsgt.Network) -> None:
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    order = torch.randperm(len(x))
    train, test = order[:1500], order[1500:]
    # On a real machine this line is absent: a node has the data it has.
    train = train[y[train].argsort()].split([500, 1000])[network.node]
    loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=len(train) // 20, shuffle=True)

    model = Digits(network, len(train))
    quiet = {f"enable_{what}": False for what in ("checkpointing", "progress_bar", "model_summary")} | {"logger": False}
    with dsgt.alone():  # it must not average gradients, nor cut the node's own data into pieces
        trainer = lightning.Trainer(accelerator="cpu", devices=1, max_steps=STEPS, max_epochs=-1, **quiet)
    trainer.fit(model, loader)
    mean = trainer.optimizers[0].average(model.net)
    found = (mean(x[test]).argmax(1) == y[test]).float().mean()
    if network.node == 0:
        print(f"step {trainer.global_step}  test accuracy {found:.3f}", flush=True)


if __name__ == "__main__":
    with dsgt.networks.TorchPeers([[0.5, 0.5], [0.5, 0.5]]) as pair:
        main(pair)
