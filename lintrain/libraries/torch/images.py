"""Rows of torchvision's data sets: the size of their images after the transforms that a script gives, and the class."""

from __future__ import annotations

from lintrain.interpreter.layer_shapes import OPEN
from lintrain.interpreter.shapes import integer
from lintrain.interpreter.tracing import DATA
from lintrain.pipeline.values.loading import TorchDataset
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    LibraryObject,
    Mapping,
    Sequence,
    Unknown,
    Value,
    is_missing,
)
from lintrain.pipeline.values.tensors import Operation, Shape, Text, Whole
from lintrain.startup.lazy_pattern import lazy_pattern

Image = tuple[int | None, int | None, int | None]
"""Channels, height and width of an image."""

IMAGES: dict[str, tuple[Image, int]] = {
    "MNIST": ((1, 28, 28), 2),
    "FashionMNIST": ((1, 28, 28), 2),
    "KMNIST": ((1, 28, 28), 2),
    "USPS": ((1, 16, 16), 2),
    "CIFAR10": ((3, 32, 32), 2),
    "CIFAR100": ((3, 32, 32), 2),
    "SVHN": ((3, 32, 32), 2),
    "STL10": ((3, 96, 96), 3),
    "ImageFolder": ((3, None, None), 1),
    "EMNIST": ((1, 28, 28), 9),
    "QMNIST": ((1, 28, 28), 9),
    **dict.fromkeys(
        (
            "Flowers102",
            "Food101",
            "StanfordCars",
            "Caltech256",
            "GTSRB",
            "EuroSAT",
            "DTD",
            "FGVCAircraft",
            "Country211",
            "SUN397",
            "ImageNet",
            "Imagenette",
            "Places365",
            "FER2013",
            "PCAM",
            "RenderedSST2",
            "LFWPeople",
        ),
        ((None, None, None), 9),
    ),
}
"""The images of a data set, and the position of its `transform`; documentation of torchvision 0.28."""

TENSORS = frozenset({"ToTensor"})
SAME = frozenset(
    {
        "Normalize", "RandomHorizontalFlip", "RandomVerticalFlip", "ColorJitter", "RandomErasing", "AutoAugment",
        "RandAugment", "TrivialAugmentWide", "AugMix", "GaussianBlur", "RandomAffine", "ConvertImageDtype",
    }
)  # fmt: skip
"""Transforms that keep channels and size."""

SQUARE = frozenset({"CenterCrop", "RandomCrop", "RandomResizedCrop"})
"""Transforms that give a square of the size that they are given as one number."""

MODULE = lazy_pattern(r"torchvision\.transforms(\.transforms|\.v2)?\.\w+")


def image_row(dataset: TorchDataset) -> Sequence | None:
    """One row of a data set of torchvision: the image and its class; None for a data set that is not known."""
    known = IMAGES.get(dataset.name) if dataset.path.startswith("torchvision.datasets.") else None
    if known is None or not dataset.is_complete:
        return None
    image, position = known
    transform = _given(dataset, "transform", position)
    sizes = after_transforms(image, transform)
    content: Value = Unknown(name="batch") if sizes is None else _data(dataset, Shape(sizes, False), "float")
    target = _given(dataset, "target_transform", position + 1)
    label: Value = _data(dataset, Shape((), False), "int") if is_missing(target) else Unknown(name="batch")
    return Sequence([content, label], "tuple")


MASKED = frozenset({"VOCSegmentation", "SBDataset"})
"""Data sets whose target is an image of classes."""


def masked_row(dataset: TorchDataset) -> Sequence | None:
    """One row of a data set for segmentation: image and mask, each by its own transform."""
    if dataset.name not in MASKED or not dataset.is_complete or _given(dataset, "transforms", 9) is not ABSENT:
        return None
    parts = [after_transforms((channels, None, None), _given(dataset, name, 9)) for name, channels in TRANSFORMS]
    return Sequence(
        [Unknown(name="batch") if part is None else _data(dataset, Shape(part, False), "float") for part in parts],
        "tuple",
    )


TRANSFORMS = (("transform", 3), ("target_transform", 1))


def attribute_of_images(dataset: TorchDataset, name: str) -> Value | None:
    """`dataset.targets`, `dataset.data` of all rows; None where that is not known."""
    known = IMAGES.get(dataset.name)
    if known is None or not dataset.path.startswith("torchvision.datasets."):
        return None
    numbers = _data(dataset, Shape((None,), False), "int")
    match name:
        case "targets" | "train_labels" | "test_labels" if dataset.name.endswith("MNIST"):
            return numbers
        case "targets" | "_labels" | "labels":
            return Sequence([Whole()], "list", False, True)
        case "data" | "train_data" | "test_data" if known[0][1]:
            channels, *size = known[0]
            last = () if dataset.name.endswith("MNIST") else (channels,)
            return _data(dataset, Shape((None, *size, *last), False), "int")
        case "classes":
            return Sequence([Text()], "list", False, True)
        case "class_to_idx":
            return Mapping({}, False, others=Whole())
        case "samples" | "imgs":
            return Sequence([Sequence([Text(), Whole()], "tuple")], "list", False, True)
        case _:
            return None


def _given(dataset: TorchDataset, name: str, position: int) -> Value:
    argument = dataset.arguments.get(name, dataset.arguments.get(str(position)))
    return argument.value if argument else ABSENT


def _data(dataset: TorchDataset, shape: Shape, kind: str) -> Tensor:
    made = Operation(DATA, dataset.origin, dataset.text)
    return Tensor(text=dataset.text, made=made, shape=shape, kind=kind, origin=dataset.origin)


def after_transforms(image: Image, transform: Value) -> Image | None:
    """The image as a tensor after its transforms; None if they do not make a tensor, or are not all understood."""
    steps = steps_of(transform)
    if steps is None or not any(step.path.rpartition(".")[2] in TENSORS for step in steps):
        return None
    current: Image | None = image
    for step in steps:
        current = after(current, step) if current is not None else None
    return current


def steps_of(transform: Value) -> list[LibraryObject] | None:
    """The transforms in order; None if some are not known."""
    if not isinstance(transform, LibraryObject) or not MODULE.fullmatch(transform.path):
        return None
    if not transform.path.endswith(".Compose"):
        return [transform]
    inner = transform.arguments.get("transforms", transform.arguments.get("0", UNKNOWN))
    if not isinstance(inner, Sequence) or not inner.is_complete:
        return None
    found: list[LibraryObject] = []
    for item in inner.items:
        steps = steps_of(item)
        if steps is None:
            return None
        found.extend(steps)
    return found


def after(image: Image, step: LibraryObject) -> Image | None:
    """The sizes of an image after one transform; None if they are not known."""
    name = step.path.rpartition(".")[2]
    if name in TENSORS or name in SAME:
        return image
    if name == "Grayscale":
        channels = step.arguments.get("num_output_channels", step.arguments.get("0"))
        return (1 if channels is None else integer(channels), *image[1:])
    size = step.arguments.get("size", step.arguments.get("0", UNKNOWN))
    if OPEN in step.arguments or name not in SQUARE | {"Resize"}:
        return None
    if isinstance(size, Sequence):
        pair = [integer(item) for item in size.items]
        return (image[0], pair[0], pair[1]) if size.is_complete and len(pair) == 2 else None
    # `Resize(n)` makes the shorter side n long: a square stays one.
    is_square = name in SQUARE or (image[1] is not None and image[1] == image[2])
    return (image[0], integer(size), integer(size)) if is_square else (image[0], None, None)
