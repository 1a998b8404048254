"""A training with Lightning, on one machine.

python examples/plain_lightning.py
"""

import lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 200


class Digits(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main() -> None:
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    order = torch.randperm(len(x))
    train, test = order[:1500], order[1500:]
    loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=len(train) // 20, shuffle=True)

    model = Digits()
    quiet = {f"enable_{what}": False for what in ("checkpointing", "progress_bar", "model_summary")} | {"logger": False}
    trainer = lightning.Trainer(accelerator="cpu", devices=1, max_steps=STEPS, max_epochs=-1, **quiet)
    trainer.fit(model, loader)
    found = (model.net(x[test]).argmax(1) == y[test]).float().mean()
    print(f"step {trainer.global_step}  test accuracy {found:.3f}", flush=True)


if __name__ == "__main__":
    main()
