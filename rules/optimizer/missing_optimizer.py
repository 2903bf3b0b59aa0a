"""A Lightning module gives no optimizer, or gives it in a form that Lightning does not take.

Lightning trains what `configure_optimizers` returns. If it returns nothing, Lightning prints a warning and runs all
epochs without changing a weight. Without such a method, or with a schedule beside the optimizer in place of two lists,
`fit` raises an error.

## Bad

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 3)

        def training_step(self, batch):
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)  # <- missing-optimizer

    trainer = L.Trainer(max_epochs=1, accelerator="cpu", logger=False)
    trainer.fit(Classifier(), loader)

A schedule beside the optimizer:

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 3)

        def training_step(self, batch):
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)  # <- missing-optimizer
            return optimizer, schedule

    trainer = L.Trainer(max_epochs=1, accelerator="cpu", logger=False)
    trainer.fit(Classifier(), loader)
    # raises MisconfigurationException: Unknown configuration for model optimizers

## Good

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 3)

        def training_step(self, batch):
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
            return [optimizer], [schedule]

    trainer = L.Trainer(max_epochs=1, accelerator="cpu", logger=False)
    trainer.fit(Classifier(), loader)

## When it is fine

A class that others derive from may leave it to them:

    class Base(L.LightningModule):
        def training_step(self, batch):
            return F.cross_entropy(self.net(batch[0]), batch[1])

    class Classifier(Base):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 3)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    trainer = L.Trainer(max_epochs=1, accelerator="cpu", logger=False)
    trainer.fit(Classifier(), loader)

## Fix

None: which optimizer and schedule the module shall have is the script's choice.

## References

Lightning 2.6 documentation, `LightningModule.configure_optimizers`; `_configure_optimizers` of `core/optimizer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import lightning_updates
from lintrain.rule import Finding, Level, Pipeline, Rule, one_per_location


class MissingOptimizer(Rule):
    level = Level.ERROR
    keywords = "LightningModule|configure_optimizers"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(found.location, found.reason, help=found.remedy)
            for found in lightning_updates.unconfigured(pipeline)
        )
