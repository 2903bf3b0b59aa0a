"""The evaluation data gets the random transforms of training.

Each evaluation measures other crops and flips of the same images. The metric is lower than it should be, and changes
from run to run, so that the best checkpoint is partly a matter of chance.

## Bad

    from torchvision import datasets, transforms

    train_transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    train_data = datasets.FakeData(size=32, image_size=(1, 2, 4), num_classes=3, transform=train_transform)
    val_data = datasets.FakeData(  # <- augmented-eval-data
        size=32, image_size=(1, 2, 4), num_classes=3, transform=train_transform
    )
    for x, y in DataLoader(train_data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x[:, 0].flatten(1)), y).backward()
        optimizer.step()

## Good

    from torchvision import datasets, transforms

    train_transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    train_data = datasets.FakeData(size=32, image_size=(1, 2, 4), num_classes=3, transform=train_transform)
    val_data = datasets.FakeData(
        size=32, image_size=(1, 2, 4), num_classes=3, transform=transforms.ToTensor()
    )
    for x, y in DataLoader(train_data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x[:, 0].flatten(1)), y).backward()
        optimizer.step()

## When it is fine

A transform that is the same for every call:

    from torchvision import datasets, transforms

    transform = transforms.Compose([transforms.CenterCrop(4), transforms.ToTensor()])
    train_data = datasets.FakeData(size=32, image_size=(1, 2, 4), num_classes=3, transform=transform)
    test_data = datasets.FakeData(size=32, image_size=(1, 2, 4), num_classes=3, transform=transform)
    for x, y in DataLoader(train_data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x.flatten(1)[:, :8]), y).backward()
        optimizer.step()

## Fix

None: which transforms the evaluation needs is not certain.

## References

torchvision documentation, "Transforming and augmenting images"; the fix in `Lightning-AI/tutorials`, commit
a7d947178455.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import augmentations
from lintrain.pipeline.values.python import Function
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location

FEWEST = 3
"""Pictures that are read twice."""


class AugmentedEvalData(Rule):
    level = Level.WARNING
    keywords = "transform|Compose|ImageDataGenerator|map|validation_data & andom|_range|_flip|Jitter|Aug|aug|Flip|Shift"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, augmentations.augmented_data(pipeline.source)))
        yield from one_per_location(self._of_transforms(pipeline))
        for found in augmentations.shared_transforms(pipeline.source):
            yield self.finding(
                found.location,
                "this is the transform of both parts, which share one data set",
                related=[Related(found.split, "divided here", "split")],
                help="make the data set twice, with a transform each, and take a `Subset` of the same rows of each",
            )

    def _of_transforms(self, pipeline: Pipeline) -> Iterator[Finding]:
        """Rows for evaluation that go through the function of the training rows: `splits.with_transform(augment)`."""
        for run in pipeline.runs:
            training, evaluation = (pipeline.rows_of(run.value(f"{name}_dataset")) for name in ("train", "eval"))
            if training is None or evaluation is None or training.may_differ or evaluation.may_differ:
                continue
            shared, given = evaluation.transform, run.arguments.get("eval_dataset")
            if given is None or not isinstance(shared, Function) or training.transform is not shared:
                continue
            changed = augmentations.changed_at_random(pipeline.source, shared)
            if changed is not None:
                yield self.finding(
                    given.location,
                    f"evaluation data goes through `{shared.name}`, which changes it at random",
                    related=[Related(changed, "the random transform is used here", "transform")],
                    help="give the evaluation data a function of its own, without random transforms",
                )

    def _report(self, found: augmentations.AugmentedData) -> Finding:
        shown = f"`{found.transform}`" if len(found.transform) <= 24 else "a transform"
        return self.finding(
            found.location,
            f"evaluation data gets {shown}, which is random",
            related=[Related(found.made, "the transform is made here", "transform")],
            help="give the evaluation data a transform without random parts",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        for split in evidence.splits:
            if split.argument == "eval_dataset" and split.sweep is not None and split.sweep.pictures_changed:
                made = [each.location for each in evidence.objects.loaders if each.rows == split.rows]
                own = [location for location in made if location != evidence.data_location]
                yield self.finding(
                    own[0] if own else evidence.location_of("eval_dataset"),
                    "pictures of the evaluation data are changed at random",
                    help="give the evaluation data a transform without random parts",
                    subject=split.argument,
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        split = evidence.split("eval_dataset")
        swept = split.sweep if split is not None else None
        if swept is None or swept.pictures_read < FEWEST:
            return Verdict.inconclusive(f"{swept.pictures_read if swept else 0} pictures were read twice")
        text = f"{swept.pictures_changed} of {swept.pictures_read} pictures are others when they are read once more"
        if swept.pictures_changed == swept.pictures_read:
            return Verdict.confirmed(text, changed=swept.pictures_changed)
        verdict = Verdict.inconclusive if swept.pictures_changed else Verdict.refuted
        return verdict(text, changed=swept.pictures_changed)
