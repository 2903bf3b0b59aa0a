"""Puts module and data together."""

import argparse

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from module import PointModule
from points import PointData


def main(options):
    L.seed_everything(options.seed, workers=True)
    best = ModelCheckpoint(dirpath="best", monitor="val_loss", mode="min", save_top_k=1)
    trainer = L.Trainer(
        max_epochs=options.epochs, accelerator="cpu", logger=False, callbacks=[best], enable_progress_bar=False
    )
    trainer.fit(PointModule(inputs=6, classes=4, rate=options.rate), datamodule=PointData())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    main(parser.parse_args())
