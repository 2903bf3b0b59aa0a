"""A transform of images gets a kind of image that it refuses.

`Normalize` and `RandomErasing` read tensors, and `ToTensor` makes one of an image: in the wrong order the first row
raises an error. What `cv2.imread` and `skimage.io.imread` give is an array, and a list of transforms that begins with a
crop or a flip requires an image of PIL.

## Bad

    from torchvision import transforms

    train_transform = transforms.Compose([
        transforms.Resize(32),
        transforms.Normalize([0.5], [0.5]),  # <- transform-order
        transforms.ToTensor(),
    ])
    images = ImageFolder("images", transform=train_transform)
    for inputs, labels in DataLoader(images, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

An array for transforms of images:

    from skimage import io
    from torchvision import transforms

    class Photos(Dataset):
        def __init__(self, paths, labels, transform):
            self.paths, self.labels, self.transform = paths, labels, transform

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            image = io.imread(self.paths[index])
            return self.transform(image), self.labels[index]  # <- transform-order

    cropped = transforms.Compose([transforms.CenterCrop(32), transforms.ToTensor()])
    photos = Photos(["1.png", "2.png"], [0, 1], transform=cropped)
    for inputs, labels in DataLoader(photos, batch_size=2, shuffle=True):
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## Good

    from torchvision import transforms

    train_transform = transforms.Compose([
        transforms.Resize(32),
        transforms.ToTensor(),
        transforms.Normalize([0.5], [0.5]),
    ])
    images = ImageFolder("images", transform=train_transform)
    for inputs, labels in DataLoader(images, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## When it is fine

The rows are tensors already, or become images first:

    from torchvision import transforms

    of_tensors = transforms.Compose([transforms.Normalize([0.5], [0.5]), transforms.RandomErasing()])
    of_arrays = transforms.Compose([
        transforms.ToPILImage(),
        transforms.RandomCrop(32),
        transforms.ToTensor(),
        transforms.Normalize([0.5], [0.5]),
    ])
    images = ImageFolder("images", transform=of_arrays)
    for inputs, labels in DataLoader(images, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## Fix

None: the places of other transforms in the list may have to change as well.

## References

torchvision documentation, `Compose`, `Normalize`, `ToTensor`, `ToPILImage`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import transform_order
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets


class TransformOrder(Rule):
    level = Level.ERROR
    keywords = "Compose"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(transform_order.misplaced(source)) or any(transform_order.arrays_given(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for location in transform_order.without_tensors(pipeline.source):
            yield self.finding(
                location,
                "no transform makes a tensor of the images, and a loader makes batches of tensors",
                help="end the list with `ToTensor()`",
            )
        for found in transform_order.misplaced(pipeline.source):
            yield self.finding(
                found.location,
                f"`{found.name}` reads tensors, but stands before `{found.first}`, which makes them"
                if found.first
                else "`ToTensor` gets a tensor: it is in this list twice",
                help=f"put it after `{found.first}`" if found.first else "remove one of the two",
            )
        for given in transform_order.arrays_given(pipeline.source):
            yield self.finding(
                given.location,
                f"`{given.reader}` gives an array, and `{given.first}` reads images of PIL",
                help="begin the transforms with `ToPILImage()`, or read the file with `Image.open`",
            )
