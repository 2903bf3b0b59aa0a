"""Small GAN on points that lie on eight rings, with manual optimisation."""
import argparse
import math

import lightning.pytorch as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class RingData(pl.LightningDataModule):
    def __init__(self, n_points: int, batch_size: int, seed: int):
        super().__init__()
        self.n_points = n_points
        self.batch_size = batch_size
        self.seed = seed

    def setup(self, stage=None):
        gen = torch.Generator().manual_seed(self.seed)
        angle = torch.randint(0, 8, (self.n_points,), generator=gen) * (2 * math.pi / 8)
        centre = torch.stack([angle.cos(), angle.sin()], dim=1)
        self.points = TensorDataset(centre + 0.03 * torch.randn(self.n_points, 2, generator=gen))

    def train_dataloader(self):
        return DataLoader(self.points, batch_size=self.batch_size, shuffle=True, drop_last=True)


class Generator(nn.Module):
    def __init__(self, latent_dim, width):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(latent_dim, width), nn.Linear(width, width)])
        self.out = nn.Linear(width, 2)

    def forward(self, z):
        for block in self.blocks:
            z = F.leaky_relu(block(z), 0.2)
        return self.out(z)


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


class RingGAN(pl.LightningModule):
    def __init__(self, latent_dim=16, width=64, lr=2e-4, decay=0.97):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.generator = Generator(latent_dim, width)
        self.critic = Critic(width)
        self.criterion = nn.BCEWithLogitsLoss()

    def noise(self, n):
        return torch.randn(n, self.hparams.latent_dim, device=self.device)

    def forward(self, z):
        return self.generator(z)

    def training_step(self, batch, batch_idx):
        (real,) = batch
        opt_g, opt_d = self.optimizers()
        n = real.size(0)

        # the critic first
        fake = self(self.noise(n)).detach()
        real_logits = self.critic(real)
        fake_logits = self.critic(fake)
        d_loss = self.criterion(real_logits, torch.ones_like(real_logits))
        d_loss = d_loss + self.criterion(fake_logits, torch.zeros_like(fake_logits))
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()

        # then the generator
        sample = self(self.noise(n))
        verdict = self.critic(sample)
        g_loss = self.criterion(verdict, torch.ones_like(verdict))
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        self.clip_gradients(opt_g, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
        opt_g.step()

        self.log_dict({"d_loss": d_loss.detach(), "g_loss": g_loss.detach()}, prog_bar=True)

    def on_train_epoch_end(self):
        sch_g, sch_d = self.lr_schedulers()
        sch_g.step()
        sch_d.step()

    def configure_optimizers(self):
        opt_g = torch.optim.Adam(self.generator.parameters(), lr=self.hparams.lr, betas=(0.5, 0.999))
        opt_d = torch.optim.Adam(self.critic.parameters(), lr=self.hparams.lr, betas=(0.5, 0.999))
        sch_g = torch.optim.lr_scheduler.ExponentialLR(opt_g, gamma=self.hparams.decay)
        sch_d = torch.optim.lr_scheduler.ExponentialLR(opt_d, gamma=self.hparams.decay)
        return [opt_g, opt_d], [sch_g, sch_d]


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--latent-dim", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=11)
    return parser.parse_args()


def main():
    args = parse_args()
    pl.seed_everything(args.seed, workers=True)
    data = RingData(4096, args.batch_size, args.seed)
    gan = RingGAN(latent_dim=args.latent_dim, lr=args.lr)
    trainer = pl.Trainer(
        max_epochs=args.epochs,
        accelerator="auto",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(gan, datamodule=data)

    gan.eval()
    with torch.no_grad():
        drawn = gan(gan.noise(1000))
    print("mean radius of drawn points:", drawn.norm(dim=1).mean().item())


if __name__ == "__main__":
    main()
