"""A metric like F1 or the area under a curve is computed for each batch, and the values are averaged.

The mean of these values is not the metric of all rows: a batch that lacks a class has an F1 of 0 for it, and an area
under a curve only compares rows of the same batch. With another batch size the number is another one. Lightning
averages what `self.log` gets over the batches of an epoch.

## Bad

    from torchmetrics.functional import f1_score

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def training_step(self, batch, index):
            x, y = batch
            return F.cross_entropy(self.layer(x), y)

        def validation_step(self, batch, index):
            x, y = batch
            scores = self.layer(x)
            f1 = f1_score(scores, y, task="multiclass", num_classes=3, average="macro")  # <- averaged-batch-metric
            self.log("val_f1", f1)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    trainer = L.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, accelerator="cpu")
    held_out = DataLoader(TensorDataset(torch.randn(32, 8), torch.randint(0, 3, (32,))), batch_size=8)
    trainer.fit(Classifier(), loader, held_out)

## Good

    from torchmetrics import F1Score

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)
            self.f1 = F1Score(task="multiclass", num_classes=3, average="macro")

        def training_step(self, batch, index):
            x, y = batch
            return F.cross_entropy(self.layer(x), y)

        def validation_step(self, batch, index):
            x, y = batch
            self.f1(self.layer(x), y)
            self.log("val_f1", self.f1)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    trainer = L.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, accelerator="cpu")
    held_out = DataLoader(TensorDataset(torch.randn(32, 8), torch.randint(0, 3, (32,))), batch_size=8)
    trainer.fit(Classifier(), loader, held_out)

## When it is fine

The mean of the accuracies of equal batches is the accuracy, and so is an F1 that counts all predictions alike:

    from torchmetrics.functional import accuracy, f1_score

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def training_step(self, batch, index):
            x, y = batch
            return F.cross_entropy(self.layer(x), y)

        def validation_step(self, batch, index):
            x, y = batch
            self.log("val_acc", accuracy(self.layer(x), y, task="multiclass", num_classes=3))
            self.log("val_f1", f1_score(self.layer(x), y, task="multiclass", num_classes=3))

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    trainer = L.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, accelerator="cpu")
    held_out = DataLoader(TensorDataset(torch.randn(32, 8), torch.randint(0, 3, (32,))), batch_size=8)
    trainer.fit(Classifier(), loader, held_out)

## Fix

None: the metric has to be made in `__init__`, or predictions be collected.

## References

torchmetrics documentation, "TorchMetrics in PyTorch Lightning"; torchmetrics#597.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import batch_metrics
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class AveragedBatchMetric(Rule):
    level = Level.WARNING
    keywords = "torchmetrics|sklearn"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, batch_metrics.averaged(pipeline.source)))

    def _report(self, found: batch_metrics.BatchMetric) -> Finding:
        return self.finding(
            found.location,
            f"the mean of `{found.name}` over batches is not that of all rows",
            related=[Related(found.averaged, "averaged over the batches here", "mean")],
            help="use a metric object that counts all batches, or compute it once of all predictions",
        )
