"""Images of the evaluation are normalized by other numbers than those of the training, or not at all.

The network is measured on images with another mean and scale than those that it learned. The metric is far lower than
the network deserves, early stopping and the best checkpoint follow it, and no error is raised.

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

from lintrain.analysis import normalizations
from lintrain.rule import Finding, Level, Pipeline, Related, Rule


class UnmatchedNormalization(Rule):
    level = Level.WARNING
    keywords = "Compose & Normalize"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in normalizations.other_normalizations(pipeline.source):
            yield self.finding(
                found.location,
                found.problem,
                related=[Related(found.other, "the transform of the training", "transform")],
                help="normalize both parts by the same mean and standard deviation",
            )
