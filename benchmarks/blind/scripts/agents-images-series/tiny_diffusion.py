"""Unconditional DDPM on small made-up images; all settings live in one dataclass."""
from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    seed: int = 0
    image_size: int = 8
    n_images: int = 256
    timesteps: int = 50
    beta_start: float = 1e-4
    beta_end: float = 0.12
    width: int = 16
    batch_size: int = 64
    epochs: int = 4
    lr: float = 2e-3
    ema_decay: float = 0.99
    device: str = "cuda" if torch.cuda.is_available() else "cpu"


def make_images(cfg: Config, generator: torch.Generator) -> torch.Tensor:
    """Soft blobs with a random centre, scaled to [-1, 1]."""
    axis = torch.linspace(-1, 1, cfg.image_size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    centre = torch.rand(cfg.n_images, 2, generator=generator) - 0.5
    dist = (yy - centre[:, 0, None, None]) ** 2 + (xx - centre[:, 1, None, None]) ** 2
    return (torch.exp(-dist / 0.1) * 2 - 1).unsqueeze(1)


class TimeEmbedding(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        half = self.dim // 2
        freqs = torch.exp(-math.log(10_000) * torch.arange(half, device=t.device) / half)
        angles = t[:, None].float() * freqs[None]
        return self.mlp(torch.cat([angles.sin(), angles.cos()], dim=-1))


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.norm1 = nn.GroupNorm(8, width)
        self.norm2 = nn.GroupNorm(8, width)
        self.time = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, temb: torch.Tensor) -> torch.Tensor:
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(temb)[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return x + h


class Denoiser(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.time = TimeEmbedding(width)
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList([Block(width) for _ in range(3)])
        self.head = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        temb = self.time(t)
        h = self.stem(x)
        for block in self.blocks:
            h = block(h, temb)
        return self.head(h)


class Diffusion:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        self.betas = torch.linspace(cfg.beta_start, cfg.beta_end, cfg.timesteps, device=cfg.device)
        self.alphas = 1.0 - self.betas
        self.alpha_bars = torch.cumprod(self.alphas, dim=0)

    def q_sample(self, x0: torch.Tensor, t: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        alpha_bar = self.alpha_bars[t].view(-1, 1, 1, 1)
        return alpha_bar.sqrt() * x0 + (1.0 - alpha_bar).sqrt() * noise

    def loss(self, model: nn.Module, x0: torch.Tensor) -> torch.Tensor:
        t = torch.randint(0, self.cfg.timesteps, (x0.size(0),), device=x0.device)
        noise = torch.randn_like(x0)
        predicted = model(self.q_sample(x0, t, noise), t)
        return F.mse_loss(predicted, noise)

    @torch.no_grad()
    def sample(self, model: nn.Module, n: int) -> torch.Tensor:
        size = self.cfg.image_size
        x = torch.randn(n, 1, size, size, device=self.cfg.device)
        for step in reversed(range(self.cfg.timesteps)):
            t = torch.full((n,), step, dtype=torch.long, device=self.cfg.device)
            eps = model(x, t)
            beta, alpha, alpha_bar = self.betas[step], self.alphas[step], self.alpha_bars[step]
            x = (x - beta / (1.0 - alpha_bar).sqrt() * eps) / alpha.sqrt()
            if step > 0:
                x = x + beta.sqrt() * torch.randn_like(x)
        return x.clamp(-1, 1)


@torch.no_grad()
def update_ema(ema: nn.Module, model: nn.Module, decay: float) -> None:
    for p_ema, p in zip(ema.parameters(), model.parameters()):
        p_ema.mul_(decay).add_(p, alpha=1.0 - decay)


def train(cfg: Config) -> nn.Module:
    torch.manual_seed(cfg.seed)
    images = make_images(cfg, torch.Generator().manual_seed(cfg.seed))
    loader = DataLoader(TensorDataset(images), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    model = Denoiser(cfg.width).to(cfg.device)
    ema = copy.deepcopy(model).requires_grad_(False)
    diffusion = Diffusion(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)

    for epoch in range(cfg.epochs):
        model.train()
        total = 0.0
        for (x0,) in loader:
            loss = diffusion.loss(model, x0.to(cfg.device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            update_ema(ema, model, cfg.ema_decay)
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}")

    ema.eval()
    images = diffusion.sample(ema, 16)
    print("samples", tuple(images.shape), round(images.mean().item(), 3))
    return ema


if __name__ == "__main__":
    config = Config()
    trained = train(config)
    torch.save(trained.state_dict(), "ddpm_ema.pt")
