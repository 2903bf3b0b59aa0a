"""Stripes, configured by a JSON file."""

import json
from pathlib import Path

import torch
from data import build_loaders
from engine import evaluate, train_one_epoch
from network import StripeNet

config = json.loads((Path(__file__).parent / "config.json").read_text())


def main():
    torch.manual_seed(config["seed"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader, held_out_loader = build_loaders(config)
    model = StripeNet(config["classes"]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["rate"])
    for epoch in range(config["epochs"]):
        loss = train_one_epoch(model, train_loader, optimizer, device)
        accuracy = evaluate(model, held_out_loader, device)
        print(f"epoch {epoch}: loss {loss:.3f}, accuracy {accuracy:.2f}")
    torch.save(model.state_dict(), config["output"])


if __name__ == "__main__":
    main()
