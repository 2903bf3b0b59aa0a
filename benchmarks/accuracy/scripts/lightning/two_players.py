"""A GAN in Lightning: two optimizers, so the optimisation is by hand."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Players(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.criterion = nn.BCEWithLogitsLoss()

    def training_step(self, batch, batch_idx):
        (real,) = batch
        optimizer_g, optimizer_c = self.optimizers()
        made = self.generator(torch.randn(len(real), 3, device=self.device))

        self.toggle_optimizer(optimizer_c)
        wrong = self.criterion(self.critic(made.detach()), torch.zeros(len(real), 1, device=self.device))
        right = self.criterion(self.critic(real), torch.ones(len(real), 1, device=self.device))
        optimizer_c.zero_grad()
        self.manual_backward((wrong + right) / 2)
        optimizer_c.step()
        self.untoggle_optimizer(optimizer_c)

        self.toggle_optimizer(optimizer_g)
        fooled = self.criterion(self.critic(made), torch.ones(len(real), 1, device=self.device))
        optimizer_g.zero_grad()
        self.manual_backward(fooled)
        optimizer_g.step()
        self.untoggle_optimizer(optimizer_g)
        self.log_dict({"critic": wrong + right, "generator": fooled})

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.generator.parameters(), lr=2e-4),
            torch.optim.Adam(self.critic.parameters(), lr=2e-4),
        )


L.seed_everything(5)
loader = DataLoader(TensorDataset(torch.randn(128, 2)), batch_size=16, shuffle=True)
trainer = L.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False, default_root_dir="players")
trainer.fit(Players(), loader)
