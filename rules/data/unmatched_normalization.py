"""Images reach a network with a normalization other than that of its training images, or with none.

The images of the evaluation get other numbers than those of the training, or a pretrained network gets other numbers
than those that it learned from. The metric is lower than the network deserves, early stopping and the best checkpoint
follow it, and no error is raised. The same holds for arrays of which only the training rows are divided by 255.

## Bad

    from torchvision import datasets, transforms

    train_transform = transforms.Compose(
        [transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize([0.5], [0.25])]
    )
    val_transform = transforms.Compose([transforms.ToTensor()])  # <- unmatched-normalization
    train_data = datasets.FakeData(size=32, image_size=(1, 2, 4), num_classes=3, transform=train_transform)
    val_data = datasets.FakeData(size=32, image_size=(1, 2, 4), num_classes=3, transform=val_transform)
    for x, y in DataLoader(train_data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x[:, 0].flatten(1)), y).backward()
        optimizer.step()

## Good

    from torchvision import datasets, transforms

    train_transform = transforms.Compose(
        [transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize([0.5], [0.25])]
    )
    val_transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.25])])
    train_data = datasets.FakeData(size=32, image_size=(1, 2, 4), num_classes=3, transform=train_transform)
    val_data = datasets.FakeData(size=32, image_size=(1, 2, 4), num_classes=3, transform=val_transform)
    for x, y in DataLoader(train_data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x[:, 0].flatten(1)), y).backward()
        optimizer.step()

## When it is fine

No image is normalized:

    from torchvision import datasets, transforms

    train_transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    val_transform = transforms.Compose([transforms.ToTensor()])
    train_data = datasets.FakeData(size=32, image_size=(1, 2, 4), num_classes=3, transform=train_transform)
    val_data = datasets.FakeData(size=32, image_size=(1, 2, 4), num_classes=3, transform=val_transform)
    for x, y in DataLoader(train_data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x[:, 0].flatten(1)), y).backward()
        optimizer.step()

## Fix

None: which of the two has the right numbers is not certain.

## References

torchvision documentation, `Normalize`; PyTorch tutorial, "Transfer Learning for Computer Vision".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import normalizations, uneven_splits
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class UnmatchedNormalization(Rule):
    level = Level.WARNING
    keywords = "Compose|255 & Normalize|pretrained|weights|255"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in normalizations.other_normalizations(pipeline.source):
            yield self.finding(
                found.location,
                found.problem,
                related=[Related(found.other, "the transform of the training", "transform")],
                help="normalize both parts by the same mean and standard deviation",
            )
        yield from one_per_location(map(self._report_part, uneven_splits.unscaled_parts(pipeline.source)))
        yield from one_per_location(self._report(found) for found in normalizations.unprepared_images(pipeline))

    def _report_part(self, found: uneven_splits.Uneven) -> Finding:
        is_short = len(found.name) + len(found.other) < 40
        return self.finding(
            found.location,
            f"`{found.name}` is not divided by 255, as `{found.other}` is"
            if is_short
            else "these images are not divided by 255, as those of the other part are",
            related=[Related(found.changed, "the other part of the rows is scaled here", "transform")],
            help="scale both parts alike",
        )

    def _report(self, found: normalizations.Unprepared) -> Finding:
        network = normalizations.last_part(found.network.path)
        wanted = "images normalized as for ImageNet, not by 0.5" if found.is_halved else "normalized images"
        rest = "" if found.is_halved else ", and these are not"
        made = found.network.origin
        return self.finding(
            found.location,
            f"the pretrained `{network}` expects {wanted}{rest}",
            related=[Related(made, "the pretrained network", "network")] if made else [],
            help="add `Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])` to the transform",
            level=Level.NOTE if found.is_halved else self.level,
        )
