# %% [markdown]
# # A small VAE on the scikit-learn digits

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(42)
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
digits = load_digits()
images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
train_images, test_images = train_test_split(images, test_size=0.2, random_state=42)
train_loader = DataLoader(TensorDataset(train_images), batch_size=32, shuffle=True)
test_loader = DataLoader(TensorDataset(test_images), batch_size=256)
print(train_images.shape, test_images.shape)


# %%
class VAE(nn.Module):
    def __init__(self, in_dim=64, hidden=128, latent=8):
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Linear(in_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.fc_mu = nn.Linear(hidden, latent)
        self.fc_logvar = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, in_dim),
            nn.Sigmoid(),
        )

    def encode(self, x):
        h = self.encoder(x)
        return self.fc_mu(h), self.fc_logvar(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return self.decoder(z)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


# %%
def vae_loss(recon, x, mu, logvar):
    rec = F.binary_cross_entropy(recon, x, reduction="sum")
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return rec, kl


# %%
model = VAE().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
history = []

for epoch in range(1, 9):
    model.train()
    running = 0.0
    for (x,) in train_loader:
        x = x.to(device)
        recon, mu, logvar = model(x)
        rec, kl = vae_loss(recon, x, mu, logvar)
        loss = (rec + kl) / x.size(0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += (rec + kl).item()

    model.eval()
    total, total_kl = 0.0, 0.0
    with torch.no_grad():
        for (x,) in test_loader:
            x = x.to(device)
            recon, mu, logvar = model(x)
            rec, kl = vae_loss(recon, x, mu, logvar)
            total += (rec + kl).item()
            total_kl += kl.item()
    n_train, n_test = len(train_loader.dataset), len(test_loader.dataset)
    history.append((running / n_train, total / n_test))
    print(f"epoch {epoch:2d}  train {running / n_train:.3f}  test {total / n_test:.3f}  kl {total_kl / n_test:.3f}")

# %%
best_epoch = min(range(len(history)), key=lambda i: history[i][1])
print("lowest test loss in epoch", best_epoch + 1)

# %%
model.eval()
with torch.no_grad():
    z = torch.randn(16, model.latent, device=device)
    samples = model.decode(z).view(16, 8, 8).cpu()
print(samples.mean().item(), samples.min().item(), samples.max().item())
torch.save(model.state_dict(), "vae_digits.pt")
