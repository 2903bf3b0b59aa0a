"""Lightning and Fabric: `Trainer.fit` runs by itself, shortened, under the watch that loops have."""
