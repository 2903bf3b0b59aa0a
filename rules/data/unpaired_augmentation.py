"""A mask is flipped or cropped at random by itself, and no longer fits its image.

Each call of a random transform draws new numbers. Where an image and its mask go through two calls, one is flipped and
the other is not. Training runs without an error, and the network learns masks of other places.

## Bad

    from PIL import Image
    from torchvision import transforms

    class Rows(torch.utils.data.Dataset):
        def __init__(self, images, masks):
            self.images, self.masks = images, masks
            self.transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            image = self.transform(Image.open(self.images[index]))
            mask = self.transform(Image.open(self.masks[index]))  # <- unpaired-augmentation
            return image, mask

## Good

    from PIL import Image
    from torchvision.transforms import v2
    from torchvision.tv_tensors import Mask

    class Rows(torch.utils.data.Dataset):
        def __init__(self, images, masks):
            self.images, self.masks = images, masks
            self.transform = v2.Compose([v2.RandomHorizontalFlip(), v2.ToImage()])

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            image, mask = Image.open(self.images[index]), Mask(Image.open(self.masks[index]))
            return self.transform(image, mask)

## When it is fine

Both calls draw the same numbers, and transforms of the mask that move nothing:

    from PIL import Image
    from torchvision import transforms

    class Rows(torch.utils.data.Dataset):
        def __init__(self, images, masks):
            self.images, self.masks = images, masks
            self.moves = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
            self.resize = transforms.Compose([transforms.Resize(64), transforms.ToTensor()])

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            torch.manual_seed(index)
            image = self.moves(Image.open(self.images[index]))
            torch.manual_seed(index)
            mask = self.moves(Image.open(self.masks[index]))
            return image, mask, self.resize(Image.open(self.masks[index]))

## Fix

None: a transform of both, or the same random numbers, are both possible.

## References

Torchvision documentation, "Transforms v2: End-to-end object detection/segmentation example".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import moved_images, transform_order
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, lazy_pattern, one_per_location

MOVES = lazy_pattern(r"\bRandom(?:\w*Flip|\w*Crop|Rotation|Affine|Perspective)\(")


class UnpairedAugmentation(Rule):
    level = Level.ERROR
    keywords = "Random|random"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return (source.contains(MOVES) and any(transform_order.unpaired(source))) or any(
            True for _ in moved_images.moved_alone(source)
        )

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, transform_order.unpaired(pipeline.source)))
        yield from one_per_location(map(self._report_alone, moved_images.moved_alone(pipeline.source)))

    def _report_alone(self, found: moved_images.MovedImage) -> Finding:
        names = f"`{found.image}` at random, and not `{found.mask}`"
        return self.finding(
            found.location,
            f"`{found.move}` moves {names if len(names) < 40 else 'an image at random, and not its mask'}",
            help="move both by the same numbers, such as the image and the mask joined along their channels",
        )

    def _report(self, found: transform_order.Unpaired) -> Finding:
        return self.finding(
            found.location,
            f"`{found.transform}` moves this mask by other random numbers than its image",
            related=[Related(found.image, "the image is transformed here", "image")],
            help="transform both in one call, as those of `torchvision.transforms.v2` do",
        )
