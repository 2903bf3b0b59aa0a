"""The class numbers of a mask are mixed by a resize, or divided by `ToTensor`.

Between class 1 and class 5 a resize finds 3, which is another class: the borders of all objects get wrong labels. The
default of torchvision, OpenCV and TensorFlow mixes. `ToTensor` divides by 255, and as whole numbers all classes are
then 0. No error is raised.

## Bad

    import cv2
    from torch.utils.data import Dataset


    class Rows(Dataset):
        def __getitem__(self, index):
            image = cv2.resize(cv2.imread(f"{index}.jpg"), (64, 64))
            mask = cv2.resize(cv2.imread(f"{index}.png", 0), (64, 64))  # <- changed-class-mask
            return torch.from_numpy(image).permute(2, 0, 1) / 255, torch.from_numpy(mask).long()


    network, criterion = nn.Conv2d(3, 5, 1), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(network.parameters())
    for images, masks in DataLoader(Rows(), batch_size=4, num_workers=2):
        optimizer.zero_grad()
        criterion(network(images), masks).backward()
        optimizer.step()

## Good

    import cv2
    from torch.utils.data import Dataset


    class Rows(Dataset):
        def __getitem__(self, index):
            image = cv2.resize(cv2.imread(f"{index}.jpg"), (64, 64))
            mask = cv2.resize(cv2.imread(f"{index}.png", 0), (64, 64), interpolation=cv2.INTER_NEAREST)
            return torch.from_numpy(image).permute(2, 0, 1) / 255, torch.from_numpy(mask).long()


    network, criterion = nn.Conv2d(3, 5, 1), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(network.parameters())
    for images, masks in DataLoader(Rows(), batch_size=4, num_workers=2):
        optimizer.zero_grad()
        criterion(network(images), masks).backward()
        optimizer.step()

## When it is fine

A mask of fractions, for a loss of fractions:

    import cv2


    def read(index):
        mask = cv2.resize(cv2.imread(f"{index}.png", 0), (64, 64)) / 255
        return torch.from_numpy(mask).float()

## Fix

None: which other steps the mask goes through is not certain.

## References

torchvision documentation, `Resize` and `PILToTensor`; the corrections of the segmentation tutorial in
`tensorflow/docs`, pull request 2159.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import class_masks
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location


class ChangedClassMask(Rule):
    level = Level.ERROR
    is_preview = True
    keywords = "resize|Resize|ToTensor"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(class_masks.changed_masks(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(found.location, found.problem, help=found.remedy)
            for found in class_masks.changed_masks(pipeline.source)
        )
