"""A module of Lightning is made from a checkpoint that does not hold the arguments of its constructor.

`load_from_checkpoint` makes a new object of the class. It passes the arguments that `save_hyperparameters` has put into
the checkpoint, and those of the call. If nothing saves an argument without a default, the call raises TypeError: often
after the training, when the best checkpoint is loaded for the test.

## Bad

    class Classifier(L.LightningModule):
        def __init__(self, classes):
            super().__init__()
            self.net = nn.Linear(8, classes)

        def training_step(self, batch, index):
            x, y = batch
            return criterion(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    trainer = L.Trainer(max_epochs=1, logger=False)
    trainer.fit(Classifier(3), loader)
    trainer.save_checkpoint("last.ckpt")
    best = Classifier.load_from_checkpoint("last.ckpt")  # <- unsaved-arguments
    # raises TypeError: Classifier.__init__() missing 1 required positional argument: 'classes'

A network that is left out of the saved arguments is not passed either:

    class Classifier(L.LightningModule):
        def __init__(self, net, rate):
            super().__init__()
            self.save_hyperparameters(ignore=["net"])
            self.net = net

        def training_step(self, batch, index):
            x, y = batch
            return criterion(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=self.hparams.rate)

    trainer = L.Trainer(max_epochs=1, logger=False)
    trainer.fit(Classifier(nn.Linear(8, 3), 1e-3), loader)
    trainer.save_checkpoint("last.ckpt")
    best = Classifier.load_from_checkpoint("last.ckpt")  # <- unsaved-arguments
    # raises TypeError: Classifier.__init__() missing 1 required positional argument: 'net'

## Good

    class Classifier(L.LightningModule):
        def __init__(self, classes):
            super().__init__()
            self.save_hyperparameters()
            self.net = nn.Linear(8, classes)

        def training_step(self, batch, index):
            x, y = batch
            return criterion(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    trainer = L.Trainer(max_epochs=1, logger=False)
    trainer.fit(Classifier(3), loader)
    trainer.save_checkpoint("last.ckpt")
    best = Classifier.load_from_checkpoint("last.ckpt")

The network is passed again:

    class Classifier(L.LightningModule):
        def __init__(self, net, rate):
            super().__init__()
            self.save_hyperparameters(ignore=["net"])
            self.net = net

        def training_step(self, batch, index):
            x, y = batch
            return criterion(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=self.hparams.rate)

    trainer = L.Trainer(max_epochs=1, logger=False)
    trainer.fit(Classifier(nn.Linear(8, 3), 1e-3), loader)
    trainer.save_checkpoint("last.ckpt")
    best = Classifier.load_from_checkpoint("last.ckpt", net=nn.Linear(8, 3))

## When it is fine

Arguments with a default need not be saved, though the checkpoint may have been trained with other values:

    class Classifier(L.LightningModule):
        def __init__(self, classes=3):
            super().__init__()
            self.net = nn.Linear(8, classes)

        def training_step(self, batch, index):
            x, y = batch
            return criterion(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    trainer = L.Trainer(max_epochs=1, logger=False)
    trainer.fit(Classifier(), loader)
    trainer.save_checkpoint("last.ckpt")
    best = Classifier.load_from_checkpoint("last.ckpt")

`LightningCLI` has its own way to save arguments, and a file of them may be passed as `hparams_file`. lintrain reports
nothing about either, nor about a class that derives from one that it does not know.

## Fix

None: saving the arguments and passing them again are both reasonable, and a network is better passed.

## References

Lightning 2.6 documentation, `LightningModule.load_from_checkpoint` and `save_hyperparameters`; pytorch-lightning#3140.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis.lightning_modules import unsaved_arguments
from lintrain.pipeline.record import Misuse
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location

MOST_SHOWN = 3
"""How many arguments the help names."""

LONGEST = 22
"""The longest name that the message has room for."""


class UnsavedArguments(Rule):
    level = Level.ERROR
    keywords = "load_from_checkpoint"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return "load_from_checkpoint" in source.text

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, unsaved_arguments(pipeline)))

    def _report(self, misuse: Misuse) -> Finding:
        names, defined = misuse.text.split(), misuse.value.origin
        one = f"`{names[0]}`" if len(names[0]) <= LONGEST else "an argument"
        shown = one if len(names) == 1 else f"{len(names)} arguments"
        passed = ", ".join(f"{name}=…" for name in names[:MOST_SHOWN])
        return self.finding(
            misuse.location,
            f"`load_from_checkpoint` passes no value for {shown} of `__init__`",
            related=[Related(defined, "needed here, and not saved in a checkpoint", "definition")] if defined else [],
            help=f"call `self.save_hyperparameters()` in `__init__`, or pass `{passed}` here",
        )
